"""What `llmgw engine-check` shows: for people, and as a document for programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, metadata
from typing import TYPE_CHECKING, Any

import click

from llmgw_core.cli.ctl.table import print_table

if TYPE_CHECKING:
    from llmgw_core.cli.engine_help import Help
    from llmgw_core.engine_check.check import Report

__all__ = ["document", "show", "tier"]

_BAD = {
    "missing": "missing",
    "wrong": "there, but not as it is used",
    "unsure": "not found, in a help that looks cut",
}
_TIER = re.compile(r"(?im)^\W*tier\W*:\W*(none|bronze|silver|gold)\b")


def tier(distribution: str) -> str:
    """The tier of conformance that a plugin's README claims; empty where it does not say."""
    try:
        found = metadata(distribution)
    except (PackageNotFoundError, ValueError):
        return ""
    description = found.json.get("description", "")
    claimed = _TIER.search(description if isinstance(description, str) else "")
    return claimed[1].lower() if claimed else ""


def document(report: Report, found: Help, reached: str) -> dict[str, Any]:
    """The whole report as JSON values."""
    return {
        "ok": report.ok,
        "tier": reached,
        "help": found.origin,
        **report.model_dump(mode="json"),
    }


def show(report: Report, found: Help, reached: str, *, diff: bool) -> None:
    """Print the report; with `diff` every difference to the plugin's newest table too."""
    _heading(report, found, reached)
    rows = [
        (
            row.program or report.engine,
            row.flag,
            row.state,
            _count(len(row.combinations), "command"),
            row.message,
        )
        for row in report.flags
    ]
    if rows:
        print_table(("PROGRAM", "FLAG", "STATE", "IN", "NOTE"), rows, nothing="")
        click.echo()
    for warning in report.warnings:
        click.echo(f"{click.style('warning:', fg='yellow')} {warning}", err=True)
    _refused(report)
    _differences(report, diff=diff)
    click.echo(_verdict(report))


def _heading(report: Report, found: Help, reached: str) -> None:
    what = f"{report.program or report.engine} {report.version}".strip()
    described = _count(report.described, "flag")
    click.echo(f"{what} · {described} in {found.origin}" + (f" · tier {reached}" if reached else "") + "\n")


def _refused(report: Report) -> None:
    if not report.refused:
        return
    click.echo("refused by the plugin, so not checked:")
    for one in report.refused:
        click.echo(f"  {one.field}: {one.reason} ({_some(one.combinations)})")
    click.echo()


def _some(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
    return f"{labels[0]}{more}"


def _differences(report: Report, *, diff: bool) -> None:
    if not report.compared_with:
        click.echo("the plugin has no flag table to compare with")
        return
    number = len(report.changes)
    hint = "" if diff or not number else "; --diff lists them"
    click.echo(f"{_count(number, 'difference')} to the plugin's table of {report.compared_with}{hint}")
    for change in report.changes if diff else ():
        click.echo(f"  {change.kind:<8}  {change.flag}" + (f"  {change.detail}" if change.detail else ""))


def _verdict(report: Report) -> str:
    if not report.commands:
        return "no command could be built"
    names = {state: [row.flag for row in report.flags if row.state == state] for state in _BAD}
    if not any(names.values()):
        return f"{_count(len(report.flags), 'flag')} in {_count(report.commands, 'command')}, all there"
    return "\n".join(f"{words}: {', '.join(names[state])}" for state, words in _BAD.items() if names[state])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
