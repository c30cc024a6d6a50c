"""Every flag that a plugin can emit, held against what the program itself says that it takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

from llmgw_core.engine_check.build import Built, Made
from llmgw_core.engine_check.compare import Change, changes, renamed
from llmgw_core.spec import EngineInfo, FlagProblem, FlagTable, Value, check_argv, help_program, version_key
from llmgw_core.spec.flag_check import emitted_flags

__all__ = ["FlagRow", "Refused", "Report", "check", "newest_table", "program_of"]

FlagState = Literal["ok", "missing", "unsure", "wrong"]


class FlagRow(Value):
    """One flag of one program: whether it is there and takes what it is given.

    `unsure` is a flag that is not found in a help that looks cut. `against` says where the truth is from.
    """

    program: str
    flag: str
    state: FlagState
    message: str = ""
    against: str
    combinations: tuple[str, ...]


class Refused(Value):
    """What the plugin refuses, with the combinations that were refused for this reason."""

    field: str
    reason: str
    combinations: tuple[str, ...]


class Report(Value):
    """The result of a check; `ok` only when commands could be built and every flag is there."""

    engine: str
    version: str
    program: str
    complete: bool
    incomplete_because: str
    described: int
    commands: int
    flags: tuple[FlagRow, ...]
    warnings: tuple[str, ...]
    refused: tuple[Refused, ...]
    compared_with: str
    changes: tuple[Change, ...]

    @property
    def ok(self) -> bool:
        """Whether every flag of every command is there and well used."""
        return bool(self.commands) and all(row.state == "ok" for row in self.flags)


def program_of(text: str, built: Built, tables: Collection[FlagTable]) -> str:
    """Which program a help is of: one that a sidecar runs or a table names; else the engine, empty."""
    program = help_program(text)
    if any(table.program == program for table in tables):
        return program
    beside = any(one.begins_with(program) and not one.engine for one in built.made)
    return program if beside else ""


def newest_table(
    info: EngineInfo, tables: Collection[FlagTable], program: str = "", *, captured: bool = False
) -> FlagTable | None:
    """The newest table of a program; with `captured` only where there is none from its own help, another."""
    return max(
        (table for table in tables if table.program == program),
        key=lambda table: (captured and table.complete, version_key(info, table.version)),
        default=None,
    )


def check(info: EngineInfo, built: Built, shown: FlagTable, tables: Collection[FlagTable]) -> Report:
    """Hold commands against `shown`, the help of one program; those of other programs against `tables`."""
    before = newest_table(info, tables, shown.program, captured=True)
    groups = _groups(info, built.made, shown, tables)
    return Report(
        engine=info.name,
        version=shown.version,
        program=shown.program,
        complete=shown.complete,
        incomplete_because=shown.incomplete_because,
        described=len(shown.flags),
        commands=len(built.made),
        flags=tuple(row for table, made in groups for row in _rows(table, made, before)),
        warnings=tuple(_warnings(shown, groups, built.made)),
        refused=tuple(_refused(built)),
        compared_with=before.version if before else "",
        changes=changes(before, shown) if before else (),
    )


_Group = tuple[FlagTable, Sequence[Made]]


def _groups(
    info: EngineInfo, made: Sequence[Made], shown: FlagTable, tables: Collection[FlagTable]
) -> list[_Group]:
    """The commands by the table that knows their program; those that no table knows are in none."""
    programs = sorted({table.program for table in tables} | {shown.program})
    own = [one for one in made if _program(one, programs) == shown.program]
    groups: list[_Group] = [(shown, own)]
    for program in programs:
        known = [one for one in made if _program(one, programs) == program]
        newest = newest_table(info, tables, program, captured=True)
        if known and newest and program != shown.program:
            groups.append((newest, known))
    return groups


def _program(made: Made, programs: Iterable[str]) -> str | None:
    """Which of these programs a command runs; empty for the engine, None for one that is none of them.

    Also the last command of a rank may run another program: a worker that only joins a Ray cluster.
    """
    for program in programs:
        if made.begins_with(program):
            return program
    return "" if made.engine else None


def _rows(table: FlagTable, made: Sequence[Made], before: FlagTable | None) -> Iterator[FlagRow]:
    seen: dict[str, list[str]] = {}
    wrong: dict[str, tuple[FlagState, str, list[str]]] = {}
    for one in made:
        for emitted in emitted_flags(table, one.arguments):
            seen.setdefault(emitted.name, []).append(one.label)
        for problem in _problems(table, one):
            state = _state(table, problem.kind)
            wrong.setdefault(problem.flag, (state, problem.message, []))[2].append(one.label)
    against = f"{table.program or table.engine} {table.version}, {table.source}"
    for flag in sorted(seen):
        state, message, labels = wrong.get(flag, ("ok", "", seen[flag]))
        if state == "missing" and (now := renamed(flag, before, table)):
            message = f"it seems to be {now} now"
        yield FlagRow(
            program=table.program,
            flag=flag,
            state=state,
            message=message,
            against=against,
            combinations=tuple(dict.fromkeys(labels)),
        )


def _problems(table: FlagTable, made: Made) -> Iterator[FlagProblem]:
    values = {emitted.name: emitted.values for emitted in emitted_flags(table, made.arguments)}
    for problem in check_argv(table, made.arguments):
        if problem.kind != "choice" or not made.chosen.issuperset(values[problem.flag]):
            yield problem


def _state(table: FlagTable, kind: str) -> FlagState:
    if kind == "absent":
        return "missing"
    if kind == "unknown":
        return "missing" if table.complete else "unsure"
    return "wrong"


def _warnings(shown: FlagTable, groups: Sequence[_Group], made: Sequence[Made]) -> Iterator[str]:
    if not shown.complete:
        yield f"the help looks cut: {shown.incomplete_because}; a flag that is not found may be there"
    for table, _ in groups[1:]:
        yield f"{table.program or table.engine} is checked against the plugin's own table of {table.version}"
    known = {table.program for table, _ in groups}
    for name in sorted({one.command.name for one in made if _program(one, sorted(known)) is None}):
        yield f"the process {name} is not checked: the plugin has no table of its program"
    yield from _variables(shown, groups[0][1])


def _variables(shown: FlagTable, made: Iterable[Made]) -> Iterator[str]:
    """Variables in the engine's own name space that its help does not document, where it documents any."""
    documented = {flag.env for flag in shown.flags if flag.env}
    spaces = {name.partition("_")[0] for name in documented}
    given = {name for one in made for name in (*one.command.env, *one.command.secret_env)}
    for name in sorted(given - documented):
        if name.partition("_")[0] in spaces:
            yield f"the variable {name} is not in the help"


def _refused(built: Built) -> Iterator[Refused]:
    by_reason: dict[tuple[str, str], list[str]] = {}
    for one in built.refused:
        by_reason.setdefault((one.field, one.reason), []).append(one.label)
    for (field, reason), labels in by_reason.items():
        yield Refused(field=field, reason=reason, combinations=tuple(labels))
