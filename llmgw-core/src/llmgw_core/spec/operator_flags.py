"""What an operator may write under `engine_args`: not llmgw's own flags, and only what the release takes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from llmgw_core.spec.engine import EngineInfo
from llmgw_core.spec.flag_check import FlagProblem, check_argv
from llmgw_core.spec.flag_tables import Exactness, TableFor, table_for
from llmgw_core.spec.flags import FlagTable

__all__ = ["argument_fault", "owned_flag"]


def argument_fault(
    tables: Collection[FlagTable], info: EngineInfo, version: str, items: Sequence[str], program: str = ""
) -> str | None:
    """Why this version would not take an operator's flag, `items` being its name and values; or None.

    Refuses what a table knows to be wrong, not what it does not know: a table of an older release says
    nothing of new flags, and an incomplete one nothing of those that it leaves out. Where the version is
    not known, as when a catalog is checked, only a flag that no release has is refused.
    """
    found = table_for(tables, info, version, program)
    if found is None:
        return None
    if found.exactness is Exactness.UNKNOWN:
        return _fault_anywhere([table for table in tables if table.program == program], items)
    where = f"{info.title} {found.table.version}"
    problems = [one for one in check_argv(found.table, items) if _counts(found, one)]
    return f"{where}: {problems[0].message}" if problems else None


def _fault_anywhere(tables: Collection[FlagTable], items: Sequence[str]) -> str | None:
    name = items[0].partition("=")[0]
    if any(name in table.by_name or name in table.absent_by_name for table in tables):
        return None
    newest = [table for table in tables if table.complete][-1:]
    return check_argv(newest[0], items)[0].message if newest else None


def _counts(found: TableFor, problem: FlagProblem) -> bool:
    """Whether a table's word on this problem holds for the version."""
    match problem.kind:
        case "unknown":
            return found.decides
        case "choice":
            return found.exactness is Exactness.EXACT
        case _:
            return found.exactness in {Exactness.EXACT, Exactness.OLDER}


def owned_flag(tables: Collection[FlagTable], owned: Collection[str], word: str) -> str | None:
    """The flag of `owned` that an operator's `word` would set in some spelling, or None.

    `word` is what was written under `engine_args`, with or without dashes. Refuses too much rather than
    too little: every spelling that one of `tables` knows counts, and so does the beginning of a long name
    where a program takes that, unless it is itself the name of another flag.
    """
    written = _bare(word)
    families = {name: _family(tables, name) for name in sorted(owned)}
    for name, family in families.items():
        if written in {_bare(one) for one in family} or _attached(tables, family, word):
            return name
    known = {_bare(name) for table in tables for name in table.by_name}
    if written in known or not any(table.grammar.prefixes for table in tables):
        return None
    return next(
        (name for name, family in families.items() if any(_begins(one, written) for one in family)), None
    )


def _bare(word: str) -> str:
    """A name without dashes in front, value, key of a JSON value, and underscores."""
    name = word.strip().lstrip("-").partition("=")[0]
    return name.partition(".")[0].replace("_", "-")


def _family(tables: Collection[FlagTable], name: str) -> set[str]:
    """Every spelling of a flag, its opposite included."""
    known = {one for table in tables if name in table.by_name for one in table.by_name[name].names}
    names = {name} | known
    return names | {f"--no-{_bare(one)}" for one in names if one.startswith("--")}


def _begins(name: str, written: str) -> bool:
    return name.startswith("--") and _bare(name).startswith(written)


def _attached(tables: Collection[FlagTable], family: Collection[str], word: str) -> bool:
    """Whether `word` is a flag of one letter with its value attached, as argparse reads `-n2`."""
    short = tuple(one for one in family if len(one) == 2)
    return (
        bool(short)
        and word.startswith(short)
        and any(table.grammar.prefixes for table in tables)
        and not any(word in table.by_name for table in tables)
    )
