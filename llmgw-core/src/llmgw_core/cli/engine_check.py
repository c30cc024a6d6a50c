"""`llmgw engine-check`: the widest commands of an engine plugin against the engine's own help."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from llmgw_core.cli.engine_help import Help
    from llmgw_core.engine_check.check import Report
    from llmgw_core.plugins import PluginHost
    from llmgw_core.spec import EngineInfo, FlagTable

__all__ = ["engine_check"]

_PATH = click.Path(path_type=Path)


@click.command("engine-check")
@click.option("--plugin", required=True, metavar="NAME", help="The engine plugin to check.")
@click.option("--binary", type=_PATH, metavar="PATH", help="The engine's program. Default: as found on PATH.")
@click.option("--help-file", type=_PATH, metavar="FILE", help="Its help, recorded before.")
@click.option("--engine-version", metavar="V", help="The release. Default: asked, or the newest known.")
@click.option("--capture", type=_PATH, metavar="FILE", help="Write the help as a flag table for the plugin.")
@click.option("--diff", is_flag=True, help="List every difference to the plugin's newest table.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, for programs.")
def engine_check(
    *,
    plugin: str,
    binary: Path | None,
    help_file: Path | None,
    engine_version: str | None,
    capture: Path | None,
    diff: bool,
    as_json: bool,
) -> None:
    """Check every flag that a plugin can emit against the engine's own help; needs no GPU.

    Exits 0 when every flag is there, 1 when one is missing or wrong, 2 when the check cannot be made.
    """
    if binary is not None and help_file is not None:
        raise click.UsageError("give --binary or --help-file, not both")
    if capture is not None and help_file is not None and engine_version is None:
        raise click.UsageError("--capture of a file needs --engine-version: a help does not say it")
    from llmgw_core.cli.engine_report import document, show, tier
    from llmgw_core.plugins import PluginHost

    host = PluginHost.load()
    info = _engine(host, plugin)
    found = _help(info, binary, help_file, ask_version=engine_version is None)
    report, shown = _check(host, info, found, engine_version)
    if capture is not None:
        _capture(capture, shown)
    reached = tier(next(loaded.dist for loaded in host.plugins if loaded.info.name == plugin))
    if as_json:
        click.echo(json.dumps(document(report, found, reached), indent=2))
    else:
        show(report, found, reached, diff=diff)
    if not report.ok:
        raise click.exceptions.Exit(1)


def _engine(host: PluginHost, name: str) -> EngineInfo:
    if name in host.engines:
        return host.engines[name]
    for refused in host.refused:
        if refused.name == name:
            raise click.UsageError(f"the plugin {name} is refused: {refused.reason}")
    loaded = ", ".join(sorted(host.engines)) or "none"
    raise click.UsageError(f"no engine plugin is called {name!r}; loaded: {loaded}")


def _help(info: EngineInfo, binary: Path | None, help_file: Path | None, *, ask_version: bool) -> Help:
    from llmgw_core.cli import engine_help

    if help_file is not None:
        return engine_help.from_file(help_file, info)
    if sys.stderr.isatty():
        click.echo(f"asking {info.title} for its help…", err=True)
    return engine_help.from_program(binary, info, ask_version=ask_version)


def _check(
    host: PluginHost, info: EngineInfo, found: Help, engine_version: str | None
) -> tuple[Report, FlagTable]:
    from llmgw_core.engine_check.build import build
    from llmgw_core.engine_check.check import check, newest_table, program_of
    from llmgw_core.engine_check.compare import doubted
    from llmgw_core.spec import help_program, parse_help

    tables = _tables(host, info.name)
    newest = newest_table(info, tables, captured=True)
    program = help_program(found.text)
    beside = any(table.program == program for table in tables if program)
    # The version of a program beside the engine, such as Ray, says nothing of the engine.
    asked = found.version if beside else engine_version or found.version
    version = asked or (newest.version if newest else "")
    built = build(
        info,
        lambda shard, launch: host.call_one(info.name, "llmgw_engine_commands", shard=shard, launch=launch),
        binary=found.binary,
        version=version,
    )
    shown = parse_help(
        found.text,
        engine=info.name,
        version=engine_version or "" if beside else version,
        program=program_of(found.text, built, tables),
        captured_from=found.origin,
    )
    shown = doubted(shown, newest_table(info, tables, shown.program, captured=True))
    return check(info, built, shown, tables), shown


def _tables(host: PluginHost, plugin: str) -> tuple[FlagTable, ...]:
    """The plugin's tables; none where it does not have the hook. Raises PluginFailed when it fails."""
    for outcome in host.call_each("llmgw_engine_flags"):
        if outcome.plugin == plugin:
            if outcome.error is not None:
                raise outcome.error
            tables: tuple[FlagTable, ...] = outcome.value
            return tables
    return ()


def _capture(file: Path, shown: FlagTable) -> None:
    from llmgw_core.spec import document_json
    from llmgw_core.spec.errors import ConfigError

    if not shown.complete:
        message = f"the help looks cut ({shown.incomplete_because}), so no table is written"
        raise ConfigError(message, where=str(file))
    try:
        file.write_text(document_json(shown), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the table cannot be written: {error.strerror}", where=str(file)) from None
