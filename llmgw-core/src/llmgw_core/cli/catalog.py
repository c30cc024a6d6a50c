"""`llmgw catalog`: what is wrong with a catalog, before a control plane is asked to follow it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from llmgw_core.catalog.load import LoadedCatalog
    from llmgw_core.spec.errors import Problem


@click.group()
def catalog() -> None:
    """Check a catalog of models."""


@catalog.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, for programs.")
def check(file: Path, as_json: bool) -> None:
    """Show every error of the catalog FILE at once, each with its line.

    Exits 0 when it can be followed, warnings or not, 1 when it has errors, 2 when it cannot be read.
    """
    from llmgw_core.spec.errors import CatalogError

    try:
        loaded = _load(file)
    except CatalogError as error:
        _show(error.problems, None, as_json)
        raise click.exceptions.Exit(1) from None
    _show(loaded.warnings, loaded, as_json)


def _load(file: Path) -> LoadedCatalog:
    from llmgw_core.catalog.dry_run import commands_by_hook
    from llmgw_core.catalog.load import load_catalog
    from llmgw_core.plugins import PluginHost
    from llmgw_core.spec.errors import ConfigError

    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"the catalog cannot be read: {error.strerror}", where=str(file)) from None
    host = PluginHost.load()
    commands = commands_by_hook(host.call_one)
    return load_catalog(content, file=str(file), engines=host.engines, commands=commands)


def _show(problems: tuple[Problem, ...], loaded: LoadedCatalog | None, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_document(problems, loaded), indent=2))
        return
    for problem in problems:
        click.echo(_line(problem), err=True)
    click.echo(_summary(problems, loaded), err=loaded is None)


def _document(problems: tuple[Problem, ...], loaded: LoadedCatalog | None) -> dict[str, Any]:
    return {
        "ok": loaded is not None,
        "models": sorted(loaded.catalog.models) if loaded else [],
        "problems": [asdict(problem) for problem in problems],
    }


def _line(problem: Problem) -> str:
    place = ":".join(str(part) for part in (problem.file, problem.line, problem.column) if part)
    path = f"{problem.path}: " if problem.path else ""
    advice = f"\n  → {problem.fix}" if problem.fix else ""
    return f"{place}: {problem.severity}: {path}{problem.message}{advice}"


def _summary(problems: tuple[Problem, ...], loaded: LoadedCatalog | None) -> str:
    if loaded is None:
        return _count(sum(problem.severity == "error" for problem in problems), "error")
    warnings = f", {_count(len(problems), 'warning')}" if problems else ""
    return f"{_count(len(loaded.catalog.models), 'model')}, no error{warnings}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
