"""`llmgw plugins`: what is installed, what is in use, and why the rest is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from llmgw_core.plugins import Loaded, PluginHost, Refused

__all__ = ["plugins"]

_HEADER = ("NAME", "KIND", "DISTRIBUTION", "VERSION", "API", "STATE", "SUMMARY")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, for programs.")
def plugins(as_json: bool) -> None:
    """List the installed plugins; one that cannot be used is a row with its reason.

    A plugin is code that runs inside llmgw. LLMGW_PLUGINS=a,b lets only these load; empty lets none.
    """
    from llmgw_core.plugins import PluginHost

    host = PluginHost.load()
    if as_json:
        click.echo(json.dumps(_document(host), indent=2))
        return
    rows = [*map(_loaded_row, host.plugins), *map(_refused_row, host.refused)]
    for line in _columns([_HEADER, *sorted(rows)]):
        click.echo(line)
    for refused in host.refused:
        click.echo(f"\n{refused.name} is refused: {refused.reason}")


def _document(host: PluginHost) -> dict[str, Any]:
    return {
        "plugins": [
            {
                "name": loaded.info.name,
                "kind": loaded.info.kind,
                "distribution": loaded.dist,
                "version": loaded.version,
                "api": loaded.info.api,
                "summary": loaded.info.summary,
            }
            for loaded in host.plugins
        ],
        "refused": [
            {"name": refused.name, "distribution": refused.dist, "reason": refused.reason}
            for refused in host.refused
        ],
    }


def _loaded_row(loaded: Loaded) -> tuple[str, ...]:
    info = loaded.info
    return (info.name, info.kind, loaded.dist, loaded.version, str(info.api), "loaded", _line(info.summary))


def _refused_row(refused: Refused) -> tuple[str, ...]:
    return (refused.name, "-", refused.dist or "-", "-", "-", "refused", "see below")


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _line(text: str) -> str:
    """A plugin's text as one line, so that it cannot break the table."""
    return " ".join(text.split())
