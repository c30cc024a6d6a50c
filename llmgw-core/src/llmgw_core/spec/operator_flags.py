"""What an operator may write under `engine_args`: not llmgw's own flags, and only what the release takes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from llmgw_core.spec.engine import EngineInfo
from llmgw_core.spec.errors import Unsupported
from llmgw_core.spec.flag_check import FlagProblem, check_argv
from llmgw_core.spec.flag_tables import Exactness, TableFor, table_for
from llmgw_core.spec.flags import FlagTable
from llmgw_core.spec.shard import EngineArg, Profile

__all__ = ["argument_fault", "operator_arguments", "owned_flag"]

_OTHERS_CODE = "it lets other code into the engine; set the profile's `allow_remote_code: true` for that"
_FLAG = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


def operator_arguments(
    profile: Profile,
    info: EngineInfo,
    tables: Collection[FlagTable],
    version: str,
    *,
    owned: Collection[str],
    remote_code: Collection[str] = (),
) -> tuple[str, ...]:
    """The operator's engine_args for an engine that reads `--flag=value`, in the order of their names.

    True or None is a bare switch, False no flag at all, a tuple a flag that is repeated. `owned` are flags
    of the plugin's own, `remote_code` those that let code of others into the engine, which takes the
    operator's `allow_remote_code`. Raises Unsupported for these in any spelling, for what `version` does
    not take by `tables`, and for what is not a flag.
    """
    found: list[str] = []
    for key, value in sorted(profile.engine_args.items()):
        field, name = f"engine_args.{key}", key.removeprefix("--")
        if _FLAG.fullmatch(name) is None:
            raise Unsupported(field, "not the long name of a flag")
        if flag := owned_flag(tables, owned, name):
            raise Unsupported(field, f"llmgw sets {flag} itself")
        if not profile.allow_remote_code and owned_flag(tables, remote_code, name):
            raise Unsupported(field, _OTHERS_CODE)
        items = tuple(_items(field, name, value))
        if items and (fault := argument_fault(tables, info, version, items)):
            raise Unsupported(field, fault)
        found += items
    return tuple(found)


def _items(field: str, name: str, value: EngineArg) -> Iterator[str]:
    if value is None or value is True:
        yield f"--{name}"
    elif value is not False:
        for one in value if isinstance(value, tuple) else (value,):
            if "\0" in str(one):
                raise Unsupported(field, "a NUL character cannot be passed to a program")
            # One argument, so that a value that begins with a dash stays a value.
            yield f"--{name}={one}"


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
