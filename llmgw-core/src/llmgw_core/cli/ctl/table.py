"""Tables for people: columns as wide as their widest cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]], *, nothing: str) -> None:
    """Print rows under a heading, or the sentence `nothing` when there are none. None is a dash."""
    cells = [["–" if cell in (None, "") else str(cell) for cell in row] for row in rows]
    if not cells:
        click.echo(nothing)
        return
    table = [list(head), *cells]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
