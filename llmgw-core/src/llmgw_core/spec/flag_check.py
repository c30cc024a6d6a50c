"""Checks a command line against the table of a release: exact names, number of values, choices, repeats."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from llmgw_core.spec.flags import Arity, Flag, FlagTable
from llmgw_core.spec.value import Value

__all__ = ["FlagProblem", "check_argv", "emitted_flags", "nearest"]

_BOUNDS: dict[Arity, tuple[int, int | None]] = {
    Arity.UNKNOWN: (0, None),
    Arity.NONE: (0, 0),
    Arity.ONE: (1, 1),
    Arity.TWO: (2, 2),
    Arity.OPTIONAL: (0, 1),
    Arity.MANY: (1, None),
    Arity.ANY: (0, None),
}
_NUMBER = re.compile(r"-\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|-\.\d+")


class FlagProblem(Value):
    """Why the engine would refuse one flag of a command line, or read it otherwise than it was meant.

    The message never repeats a value, which may be a key.
    """

    flag: str
    kind: Literal["unknown", "absent", "values", "choice", "repeated"]
    message: str


class Emitted(NamedTuple):
    """A flag on a command line, with the items that follow it up to the next flag."""

    name: str
    values: tuple[str, ...]
    attached: bool


def check_argv(table: FlagTable, argv: Sequence[str]) -> tuple[FlagProblem, ...]:
    """What is wrong with `argv` (without the program) by this table; empty when nothing is.

    A flag is known by its exact name only, never by a beginning or an abbreviation of one. Where the table
    is not complete, a flag that it does not list is a problem all the same: the caller says what that means.
    """
    emitted = emitted_flags(table, argv)
    return (*_repeated(table, emitted), *(problem for one in emitted for problem in _problems(table, one)))


def emitted_flags(table: FlagTable, argv: Sequence[str]) -> tuple[Emitted, ...]:
    """The flags of a command line with what follows each; what comes before the first flag is left out."""
    found: list[Emitted] = []
    items = iter(argv)
    for item in items:
        if item == "--":
            break
        if not _is_flag(item):
            if found and not found[-1].attached:
                found[-1] = found[-1]._replace(values=(*found[-1].values, item))
            continue
        name, separator, value = item.partition("=")
        found.append(Emitted(name, (value,) if separator else (), bool(separator)))
        flag = table.by_name.get(item)
        if table.grammar.greedy and flag is not None and flag.arity in {Arity.ONE, Arity.TWO}:
            wanted = _BOUNDS[flag.arity][0]
            taken = tuple(value for _, value in zip(range(wanted), items, strict=False))
            found[-1] = Emitted(name, taken, attached=False)
    return tuple(found)


def _is_flag(item: str) -> bool:
    return len(item) > 1 and item.startswith("-") and _NUMBER.fullmatch(item) is None


def _repeated(table: FlagTable, emitted: Sequence[Emitted]) -> Iterator[FlagProblem]:
    seen: dict[str, str] = {}
    for one in emitted:
        flag = table.by_name.get(one.name)
        key = flag.names[0] if flag else one.name
        if key in seen and not (flag and flag.repeatable):
            also = f" (also as {seen[key]})" if seen[key] != one.name else ""
            yield FlagProblem(flag=one.name, kind="repeated", message=f"it is given twice{also}")
        seen.setdefault(key, one.name)


def _problems(table: FlagTable, one: Emitted) -> Iterator[FlagProblem]:
    flag = table.by_name.get(one.name)
    if flag is None and table.grammar.dotted:
        flag = table.by_name.get(one.name.partition(".")[0])
    if flag is None:
        yield _not_there(table, one.name)
    elif one.attached and not table.grammar.equals:
        yield FlagProblem(flag=one.name, kind="values", message="the engine does not take --flag=value")
    else:
        yield from _value_problems(flag, one)


def _not_there(table: FlagTable, name: str) -> FlagProblem:
    if known := table.absent_by_name.get(name):
        since = f"{table.version} does not have it"
        if known.last:
            since = f"the last release that has it is {known.last}"
        elif known.first:
            since = f"the first release that has it is {known.first}"
        instead = f"; use {' or '.join(known.instead)}" if known.instead else ""
        return FlagProblem(flag=name, kind="absent", message=f"{since}{instead}")
    near = nearest(table, name)
    asked = f"; did you mean {near}?" if near else ""
    return FlagProblem(flag=name, kind="unknown", message=f"there is no such flag{asked}")


def nearest(table: FlagTable, name: str) -> str:
    """The name in the table that is most like `name`; empty when none is."""
    short = table.by_name.get(name[1:]) if name.startswith("--") else None
    if short is not None:
        return max(short.names, key=len)  # written `--fa`, meant `-fa`
    near = difflib.get_close_matches(name, table.by_name, n=1, cutoff=0.7)
    return near[0] if near else ""


def _value_problems(flag: Flag, one: Emitted) -> Iterator[FlagProblem]:
    least, most = _BOUNDS[flag.arity]
    count = len(one.values)
    if count < least or (most is not None and count > most):
        wanted = {(0, 0): "no value", (1, 1): "one value", (2, 2): "two values", (0, 1): "at most one value"}
        meant = wanted.get((least, -1 if most is None else most), "at least one value")
        yield FlagProblem(flag=one.name, kind="values", message=f"it takes {meant}, and has {count}")
    elif flag.choices and any(value not in flag.choices for value in one.values):
        yield FlagProblem(
            flag=one.name, kind="choice", message=f"its value is none of {', '.join(flag.choices)}"
        )
