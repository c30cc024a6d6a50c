"""The widest commands against a help: what is there, what is not, and what cannot be told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from llmgw_core.engine_check.build import Built
from llmgw_core.engine_check.check import Report, check, newest_table, program_of
from llmgw_core.engine_check.compare import Change, changes, doubted
from llmgw_core.spec import Absent, BinarySpec, EngineInfo, Flag, FlagTable

Shown = Callable[[str], FlagTable]
INFO = EngineInfo(name="toy", title="Toy", binary=BinarySpec(names=("toy",)), paths=())


def states(report: Report) -> dict[str, str]:
    return {row.flag: row.state for row in report.flags}


def test_every_flag_is_there(built: Built, shown: Shown, toy_help: str, join_table: FlagTable) -> None:
    report = check(INFO, built, shown(toy_help), (join_table,))
    assert report.ok
    assert states(report) == dict.fromkeys(
        ("--dtype", "--model", "--no-quiet", "--nodes", "--port", "--address"), "ok"
    )
    assert report.commands == len(built.made)
    assert report.warnings == ("toy-join is checked against the plugin's own table of 0.5",)


def test_a_flag_that_is_gone_is_missing_though_another_begins_like_it(
    built: Built, shown: Shown, toy_help: str
) -> None:
    table = shown(toy_help.replace("  --port PORT           where\n", ""))
    report = check(INFO, built, table, ())
    assert not report.ok
    assert {flag for flag, state in states(report).items() if state != "ok"} == {"--port"}
    (row,) = [row for row in report.flags if row.flag == "--port"]
    assert (row.state, len(row.combinations) > 50) == ("missing", True)


def test_a_renamed_flag_is_named_where_a_table_knows_its_other_names(
    built: Built, shown: Shown, toy_help: str
) -> None:
    table = shown(toy_help.replace("--nodes N", "--machines N"))
    report = check(INFO, built, table, (shown(toy_help),))
    (row,) = [row for row in report.flags if row.state != "ok"]
    assert (row.flag, row.message) == ("--nodes", "it seems to be --machines, -n now")
    assert report.changes == (Change(kind="spelling", flag="-n", detail="--nodes, -n → --machines, -n"),)


@pytest.mark.parametrize(
    ("change", "state"),
    (
        (("--model MODEL ", "--model "), "wrong"),
        (("--model MODEL ", "--model A B "), "wrong"),
        (("--no-quiet  ", "--no-quiet X  "), "wrong"),
        (("{half,fp8}", "{half,int4}"), "ok"),
    ),
)
def test_values_that_do_not_fit_are_wrong_but_not_those_of_an_operator(
    built: Built, shown: Shown, toy_help: str, change: tuple[str, str], state: str
) -> None:
    changed = toy_help.replace(*change)
    assert changed != toy_help
    found = states(check(INFO, built, shown(changed), ()))
    assert set(found.values()) == {"ok", state}


def test_a_help_that_is_cut_never_makes_a_flag_missing(built: Built, shown: Shown, toy_help: str) -> None:
    report = check(INFO, built, shown(toy_help[: toy_help.index("  --nodes")].rstrip("\n")), ())
    assert not report.ok
    assert set(states(report).values()) == {"ok", "unsure"}
    assert report.warnings[0].startswith("the help looks cut: its last line does not end")


def test_a_help_cut_between_two_entries_is_seen_by_what_the_last_release_had() -> None:
    flags = tuple(Flag(names=(f"--flag-{number}",)) for number in range(40))
    known = FlagTable(engine="toy", version="1", source="captured help", flags=flags)
    half = doubted(known.model_copy(update={"flags": flags[:20]}), known)
    assert not half.complete
    assert "it lacks 20 flags in a row that 1 has, from --flag-20 to --flag-39" in half.incomplete_because
    hole = doubted(known.model_copy(update={"flags": flags[:10] + flags[20:]}), known)
    assert not hole.complete
    assert doubted(known.model_copy(update={"flags": flags[3:]}), known).complete
    assert doubted(known.model_copy(update={"flags": flags[::2]}), known).complete
    assert doubted(known, None).complete


def test_a_process_that_no_table_knows_is_named(built: Built, shown: Shown, toy_help: str) -> None:
    report = check(INFO, built, shown(toy_help), ())
    assert "the process join is not checked: the plugin has no table of its program" in report.warnings


def test_the_help_of_the_program_beside_the_engine_is_for_that(
    built: Built, shown: Shown, toy_help: str, join_table: FlagTable
) -> None:
    assert program_of("usage: toy-join [-h]", built, ()) == "toy-join"
    assert program_of("usage: other [-h]", built, ()) == ""
    assert program_of(toy_help, built, (join_table,)) == ""
    report = check(INFO, built, join_table, (shown(toy_help),))
    assert report.ok
    assert {row.program for row in report.flags} == {"toy-join", ""}
    assert report.warnings == ("toy is checked against the plugin's own table of 1.0",)


def test_a_variable_of_the_engines_own_that_its_help_lacks_is_a_warning(
    built: Built, shown: Shown, toy_help: str
) -> None:
    report = check(INFO, built, shown(toy_help.replace("TOY_QUIET", "TOY_SILENT")), ())
    assert "the variable TOY_QUIET is not in the help" in report.warnings
    assert not any("OTHER" in warning for warning in report.warnings)
    silent = check(INFO, built, shown(toy_help.replace(" [env: TOY_QUIET]", "")), ())
    assert not any("variable" in warning for warning in silent.warnings)


def test_no_command_is_no_success(shown: Shown, toy_help: str) -> None:
    assert not check(INFO, Built((), ()), shown(toy_help), ()).ok


def test_the_newest_table_is_a_captured_one_where_that_is_asked_for(shown: Shown, toy_help: str) -> None:
    captured = shown(toy_help)
    read = captured.model_copy(update={"version": "2.0", "complete": False})
    assert newest_table(INFO, (captured, read)) == read
    assert newest_table(INFO, (captured, read), captured=True) == captured
    assert newest_table(INFO, (captured,), "other") is None


# --- what changed between two tables -----------------------------------------------------------------


def table(*flags: Flag, complete: bool = True, absent: tuple[Absent, ...] = ()) -> FlagTable:
    return FlagTable(
        engine="toy",
        version="1",
        source="captured help",
        complete=complete,
        incomplete_because="" if complete else "cut",
        flags=flags,
        absent=absent,
    )


A = Flag(names=("--a", "-a"), arity="one", choices=("1", "2"), env="TOY_A", default="1")


@pytest.mark.parametrize(
    ("now", "found"),
    (
        (A, []),
        (Flag(names=("--bee",)), [("gone", "-a", ""), ("added", "--bee", "")]),
        (A.model_copy(update={"names": ("--a",)}), [("spelling", "--a", "--a, -a → --a")]),
        (A.model_copy(update={"arity": "many"}), [("values", "-a", "one → many")]),
        (A.model_copy(update={"choices": ("2", "3")}), [("choices", "-a", "without 1; with 3")]),
        (A.model_copy(update={"env": ""}), [("variable", "-a", "TOY_A → none")]),
        (A.model_copy(update={"default": "2"}), [("default", "-a", "1 → 2")]),
    ),
)
def test_every_kind_of_change_is_one_line(now: Flag, found: list[tuple[str, str, str]]) -> None:
    assert [(one.kind, one.flag, one.detail) for one in changes(table(A), table(now))] == found


def test_a_name_that_is_gone_says_what_to_use_or_what_it_may_be_now() -> None:
    old = table(Flag(names=("--cuda-graph-sizes",)))
    said = table(absent=(Absent(name="--cuda-graph-sizes", instead=("--sizes",)),))
    assert changes(old, said)[0].detail == "use --sizes"
    like = table(Flag(names=("--cudagraph-sizes",)))
    assert changes(old, like)[0].detail == "renamed to --cudagraph-sizes?"
    assert changes(old, table(complete=False))[0].detail == "or only not shown: cut"


def test_a_table_that_is_not_whole_makes_nothing_new() -> None:
    parsed = table(Flag(names=("--a",)), complete=False)
    assert changes(parsed, table(A, Flag(names=("--b",)))) == ()
