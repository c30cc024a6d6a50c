"""Tables of several releases: how they are kept in a plugin, and which one is for a given version.

A plugin keeps its tables as package data and hands their texts to `flag_tables`. `<version>.json` is one
table; `history.json` says of the flags that a launcher may use in which releases they are, and stands for
one table, not complete, of each release that was looked at.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from llmgw_core.spec.engine import EngineInfo, version_key
from llmgw_core.spec.flags import Absent, Arity, Flag, FlagTable, Grammar
from llmgw_core.spec.value import Value

__all__ = [
    "Exactness",
    "FlagHistory",
    "FlagSpan",
    "TableFor",
    "document_json",
    "flag_tables",
    "history_table",
    "table_for",
]

HISTORY = "history.json"


class FlagSpan(Value):
    """The releases that have a flag, the first and the last included; empty for the oldest or the newest.

    A flag that changed its shape has one span for each; `instead` is what does its work afterwards.
    """

    name: str
    first: str = ""
    last: str = ""
    arity: Arity = Arity.UNKNOWN
    instead: tuple[str, ...] = ()


class FlagHistory(Value):
    """What became of the flags of a program over `releases`, oldest first."""

    engine: str
    captured_from: str
    releases: tuple[str, ...]
    grammar: Grammar = Grammar()
    spans: tuple[FlagSpan, ...]


class Exactness(StrEnum):
    """How well a table fits a version."""

    EXACT = "exact"
    OLDER = "older"
    """The newest table is of an older release: newer flags are not in it, and some of it may be gone."""
    NEWER = "newer"
    """The version is older than every table: some flags of the table may not be there yet."""
    UNKNOWN = "unknown"
    """The version is not known; the newest table stands for it."""


class TableFor(Value):
    """The table to use for a version. It is a guess unless `exactness` is EXACT."""

    table: FlagTable
    exactness: Exactness

    @property
    def decides(self) -> bool:
        """Whether a flag that is not in the table is not in the engine either."""
        return self.exactness is Exactness.EXACT and self.table.complete


def flag_tables(files: Mapping[str, str], info: EngineInfo) -> tuple[FlagTable, ...]:
    """The tables in the texts of a plugin's data files, by file name; oldest first.

    Of a release with a captured table the history adds only what became of flags that are not in it.
    Raises ValueError for a file that is not a table.
    """
    captured = [FlagTable.model_validate_json(text) for name, text in files.items() if name != HISTORY]
    tables = {(table.program, table.version): table for table in captured}
    if HISTORY in files:
        history = FlagHistory.model_validate_json(files[HISTORY])
        for release in history.releases:
            parsed, own = history_table(history, release), tables.get(("", release))
            tables["", release] = parsed if own is None else _with_absent(own, history, release)
    return tuple(sorted(tables.values(), key=lambda table: version_key(info, table.version)))


def _with_absent(table: FlagTable, history: FlagHistory, release: str) -> FlagTable:
    names = table.by_name.keys() | table.absent_by_name.keys()
    more = tuple(one for one in _absent(history, release, table.by_name.keys()) if one.name not in names)
    return table.model_copy(update={"absent": (*table.absent, *more)})


def history_table(history: FlagHistory, release: str) -> FlagTable:
    """What a history says of one of its releases. Raises ValueError for a release that it does not have."""
    if release not in history.releases:
        raise ValueError(f"the history of {history.engine} does not have the release {release}")
    there = [span for span in history.spans if _spans(history, span, release)]
    return FlagTable(
        engine=history.engine,
        version=release,
        source="parsed sources",
        captured_from=history.captured_from,
        complete=False,
        incomplete_because="only flags that a launcher may use, read in the sources and not run",
        grammar=history.grammar,
        flags=tuple(Flag(names=(span.name,), arity=span.arity) for span in there),
        absent=tuple(_absent(history, release, {span.name for span in there})),
    )


def _spans(history: FlagHistory, span: FlagSpan, release: str) -> bool:
    place = {name: number for number, name in enumerate(history.releases)}
    return place.get(span.first, 0) <= place[release] <= place.get(span.last, len(place))


def _absent(history: FlagHistory, release: str, names: Collection[str]) -> Iterator[Absent]:
    """What became of the flags that are not among the `names` of a release."""
    for span in history.spans:
        if span.name not in names and not _spans(history, span, release):
            instead = tuple(name for name in span.instead if name in names)
            yield Absent(name=span.name, first=span.first, last=span.last, instead=instead)


def table_for(
    tables: Iterable[FlagTable], info: EngineInfo, version: str, program: str = ""
) -> TableFor | None:
    """The newest table of a program that is not newer than `version`; None when there is no table.

    What follows a "+" names a build of the same release.
    """
    keyed = sorted(
        ((version_key(info, table.version), table) for table in tables if table.program == program),
        key=lambda pair: pair[0],
    )
    if not keyed:
        return None
    wanted = version_key(info, version.partition("+")[0])
    if not wanted:
        return TableFor(table=keyed[-1][1], exactness=Exactness.UNKNOWN)
    older = [(key, table) for key, table in keyed if key <= wanted]
    if not older:
        return TableFor(table=keyed[0][1], exactness=Exactness.NEWER)
    key, table = older[-1]
    return TableFor(table=table, exactness=Exactness.EXACT if key == wanted else Exactness.OLDER)


def document_json(document: FlagTable | FlagHistory) -> str:
    """A table or a history as JSON with one line for each flag, so that a change is one line of a diff."""
    fields = document.model_dump(mode="json", exclude_defaults=True)
    return (
        "{\n" + ",\n".join(f" {json.dumps(name)}: {_json(value)}" for name, value in fields.items()) + "\n}\n"
    )


def _json(value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return json.dumps(value, ensure_ascii=False)
    rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False, separators=(',', ':'))}" for row in value)
    return f"[\n{rows}\n ]" if rows else "[]"
