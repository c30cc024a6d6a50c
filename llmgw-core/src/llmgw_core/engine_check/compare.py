"""What changed between two tables of one program."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Literal

from llmgw_core.spec import Arity, Flag, FlagTable, Value

__all__ = ["Change", "changes", "doubted", "renamed"]

_LONG_RUN = 0.1
_SHORT_RUN = 8
"""A release drops flags here and there; this share of them in a row, and at least so many, was cut off."""


class Change(Value):
    """One difference. `flag` is the name that a person would look for, `detail` what was and what is."""

    kind: Literal["gone", "added", "spelling", "values", "choices", "variable", "default"]
    flag: str
    detail: str = ""


def changes(old: FlagTable, new: FlagTable) -> tuple[Change, ...]:
    """Differences from `old` to `new`; what one of them cannot know is left out."""
    return (*_gone(old, new), *_added(old, new), *_changed(old, new))


def doubted(shown: FlagTable, known: FlagTable | None) -> FlagTable:
    """`shown`, not complete where it lacks many flags of `known` in a row and hardly any besides."""
    if known is None or not known.complete or not shown.complete:
        return shown
    lacking = [_counterpart(flag, shown) is None for flag in known.flags]
    at, length = _longest_run(lacking)
    limit = max(_SHORT_RUN, _LONG_RUN * len(lacking))
    if length < limit or lacking.count(True) - length > limit:
        return shown
    first, last = known.flags[at].names[-1], known.flags[at + length - 1].names[-1]
    reason = f"it lacks {length} flags in a row that {known.version} has, from {first} to {last}"
    return shown.model_copy(update={"complete": False, "incomplete_because": reason})


def _longest_run(lacking: list[bool]) -> tuple[int, int]:
    """Where the longest run of true values begins, and its length."""
    best, length = (0, 0), 0
    for number, one in enumerate(lacking):
        length = length + 1 if one else 0
        if length > best[1]:
            best = (number - length + 1, length)
    return best


def renamed(name: str, known: FlagTable | None, shown: FlagTable) -> str:
    """What `shown` calls a flag that it does not have under this name; empty when that cannot be told."""
    flag = known.by_name.get(name) if known else None
    now = _counterpart(flag, shown) if flag else None
    return ", ".join(now.names) if now else ""


def _counterpart(flag: Flag, table: FlagTable) -> Flag | None:
    return next((table.by_name[name] for name in reversed(flag.names) if name in table.by_name), None)


def _gone(old: FlagTable, new: FlagTable) -> Iterator[Change]:
    fresh = [name for flag in new.flags if _counterpart(flag, old) is None for name in flag.names]
    for flag in old.flags:
        if _counterpart(flag, new) is None:
            yield Change(kind="gone", flag=flag.names[-1], detail=_instead(flag, new, fresh))


def _instead(flag: Flag, new: FlagTable, fresh: list[str]) -> str:
    said = [
        one for name in flag.names if name in new.absent_by_name for one in new.absent_by_name[name].instead
    ]
    if said:
        return f"use {' or '.join(dict.fromkeys(said))}"
    like = difflib.get_close_matches(flag.names[-1], fresh, n=1, cutoff=0.7)
    if like:
        return f"renamed to {like[0]}?"
    return "" if new.complete else f"or only not shown: {new.incomplete_because}"


def _added(old: FlagTable, new: FlagTable) -> Iterator[Change]:
    if old.complete:
        for flag in new.flags:
            if _counterpart(flag, old) is None:
                yield Change(kind="added", flag=flag.names[-1])


def _changed(old: FlagTable, new: FlagTable) -> Iterator[Change]:
    for was in old.flags:
        now = _counterpart(was, new)
        if now is None:
            continue
        name = next(one for one in reversed(was.names) if one in now.names)
        # A table that was read in sources has each spelling for itself.
        if old.complete and set(was.names) != set(now.names):
            yield Change(
                kind="spelling", flag=name, detail=_from_to(", ".join(was.names), ", ".join(now.names))
            )
        if Arity.UNKNOWN not in {was.arity, now.arity} and was.arity is not now.arity:
            yield Change(kind="values", flag=name, detail=_from_to(was.arity, now.arity))
        if old.complete:
            yield from _facts(name, was, now)


def _facts(name: str, was: Flag, now: Flag) -> Iterator[Change]:
    if set(was.choices) != set(now.choices):
        fewer = [one for one in was.choices if one not in now.choices]
        more = [one for one in now.choices if one not in was.choices]
        detail = "; ".join(
            f"{word} {', '.join(found)}" for word, found in (("without", fewer), ("with", more)) if found
        )
        yield Change(kind="choices", flag=name, detail=detail)
    if was.env != now.env:
        yield Change(kind="variable", flag=name, detail=_from_to(was.env, now.env))
    if was.default != now.default:
        yield Change(kind="default", flag=name, detail=_from_to(was.default, now.default))


def _from_to(was: str, now: str) -> str:
    return f"{was or 'none'} → {now or 'none'}"
