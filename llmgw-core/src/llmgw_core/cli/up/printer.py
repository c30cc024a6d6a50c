"""Showing rows: a picture that changes in place on a terminal, else one line for each piece of news."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import click

from llmgw_core.cli.up.screen import Row

if TYPE_CHECKING:
    from rich.console import RenderableType

NAME_WIDTH = 15
MAX_NAME_WIDTH = 40
STATE_WIDTH = 13
COLOURS = {"ready": "green", "failed": "red", "down": "red", "silent": "red", "unschedulable": "red"}


class Printer(Protocol):
    """Where rows and sentences go."""

    def show(self, rows: Sequence[Row]) -> None:
        """The state of everything; may be called as often as one likes."""

    def say(self, text: str) -> None:
        """A sentence that stays."""

    def settle(self) -> None:
        """From here on only news, each on a line of its own."""


class LinePrinter:
    """Prints a row when it has news."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[object, ...]] = {}

    def show(self, rows: Sequence[Row]) -> None:
        width = _name_width(rows)
        for row in rows:
            if self._last.get(row.name) != row.news:
                click.echo(line(row, width))
        self.remember(rows)

    def remember(self, rows: Sequence[Row]) -> None:
        """Take rows as shown already."""
        self._last.update((row.name, row.news) for row in rows)
        sys.stdout.flush()

    def say(self, text: str) -> None:
        click.echo(text)
        sys.stdout.flush()

    def settle(self) -> None:
        """Lines are all there is."""


class LivePrinter:
    """Redraws the rows in place, from the first ones until it is settled; rich honours NO_COLOR."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._lines = LinePrinter()
        self._rows: Sequence[Row] = ()
        self._live = Live(console=Console(highlight=False), auto_refresh=False)
        self._settled = False

    def show(self, rows: Sequence[Row]) -> None:
        if self._settled:
            self._lines.show(rows)
            return
        self._rows = rows
        self._live.start()
        self._live.update(_picture(rows), refresh=True)

    def say(self, text: str) -> None:
        if self._live.is_started:
            self.settle()
        self._lines.say(text)

    def settle(self) -> None:
        if not self._settled:
            self._settled = True
            self._live.stop()
            self._lines.remember(self._rows)


def printer() -> Printer:
    """The printer that suits where stdout goes."""
    return LivePrinter() if sys.stdout.isatty() else LinePrinter()


def _name_width(rows: Sequence[Row]) -> int:
    return min(max([NAME_WIDTH, *(len(row.name) for row in rows)]), MAX_NAME_WIDTH)


def line(row: Row, width: int = NAME_WIDTH) -> str:
    """A row, and its notes, as text; `width` is that of the names."""
    share = "" if row.progress is None else f"{row.progress * 100:.0f} %"
    parts = [part for part in (row.text, share, row.detail) if part]
    head = f"  {row.name:<{width}} {row.state:<{STATE_WIDTH}} {'  '.join(parts)}".rstrip()
    return "\n".join([head, *(f"{'':{width + 3}}{note}" for note in row.notes)])


def _picture(rows: Sequence[Row]) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    width = _name_width(rows)
    parts: list[RenderableType] = []
    for row in rows:
        table = Table.grid(padding=(0, 1))
        table.add_column(min_width=width + 2)
        table.add_column(min_width=STATE_WIDTH)
        bar = ProgressBar(total=1.0, completed=row.progress, width=18) if row.progress is not None else ""
        share = "" if row.progress is None else f"{row.progress * 100:3.0f} %"
        state = Text(row.state, style=COLOURS.get(row.state.lower(), "yellow"))
        table.add_row(Text(f"  {row.name}"), state, Text(row.text), bar, Text(share), Text(row.detail))
        parts.append(table)
        parts += [Text(f"{'':{width + 3}}{note}") for note in row.notes]
    return Group(*parts)
