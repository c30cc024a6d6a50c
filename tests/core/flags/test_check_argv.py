"""A command line against a table: exact names, number of values, permitted values, repeats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmgw_core.spec import FlagTable, check_argv

Toy = Callable[[str], FlagTable]


def faults(table: FlagTable, line: str) -> list[tuple[str, str]]:
    return [(problem.flag, problem.kind) for problem in check_argv(table, line.split())]


@pytest.mark.parametrize(
    "line",
    (
        "--model x --host 1 --port 2",
        "name --model x",
        "--model=x --port=-1",
        "--workers 1 2 3 --tags --token --size 1 2",
        "--tags a b --token a --dtype half --no-cache",
        "--plugin a --plugin b",
        "--port -1 --size -1 -2.5e3",
        "--model x -- --nothing",
    ),
)
def test_what_argparse_takes(toy: Toy, line: str) -> None:
    assert faults(toy("argparse"), line) == []


@pytest.mark.parametrize(
    ("line", "problem"),
    (
        ("--por 1", ("--por", "unknown")),
        ("--port-rang=1", ("--port-rang", "unknown")),
        ("--port_range 1", ("--port_range", "unknown")),
        ("-p 1", ("-p", "unknown")),
        ("--model", ("--model", "values")),
        ("--model --host 1", ("--model", "values")),
        ("--model a b", ("--model", "values")),
        ("--cache yes", ("--cache", "values")),
        ("--cache=yes", ("--cache", "values")),
        ("--workers", ("--workers", "values")),
        ("--token a b", ("--token", "values")),
        ("--size 1", ("--size", "values")),
        ("--dtype quarter", ("--dtype", "choice")),
        ("--port 1 --port 2", ("--port", "repeated")),
        ("--model 1 -m 2", ("-m", "repeated")),
        ("--cache --no-cache", ("--no-cache", "repeated")),
    ),
)
def test_what_argparse_refuses_or_misreads(toy: Toy, line: str, problem: tuple[str, str]) -> None:
    assert faults(toy("argparse"), line) == [problem]


def test_one_name_in_another_is_not_found(toy: Toy) -> None:
    table = toy("argparse")
    without = table.model_copy(update={"flags": tuple(f for f in table.flags if f.names != ("--port",))})
    (problem,) = check_argv(without, ("--port", "1"))
    assert (problem.kind, "--port-range" in without.by_name) == ("unknown", True)


def test_llama_cpp_takes_what_comes_next_and_no_equals_sign(toy: Toy) -> None:
    table = toy("columns")
    assert faults(table, "-c --flash --flash on --range --a -b --offload") == []
    assert faults(table, "--flash") == [("--flash", "values")]
    assert faults(table, "--ctx-size=4") == [("--ctx-size", "values")]
    assert faults(table, "--strict 2") == [("--strict", "choice")]


def test_a_flag_of_other_releases_is_named_with_what_to_use(toy: Toy) -> None:
    (problem,) = check_argv(toy("columns"), ("--draft", "4"))
    assert (problem.kind, problem.message) == ("absent", "1.0 does not have it; use --spec-n-max")


def test_an_unknown_flag_is_named_with_the_nearest(toy: Toy) -> None:
    assert "did you mean --ctx-size?" in check_argv(toy("columns"), ("--ctx-sise", "4"))[0].message
    assert "did you mean --flash?" in check_argv(toy("columns"), ("--fa", "on"))[0].message


@given(
    st.lists(
        st.one_of(st.text(max_size=6), st.sampled_from(("--model", "-m", "--size", "--", "-", "--dtype=x")))
    )
)
def test_any_command_line_is_judged_and_no_value_is_repeated(toy: Toy, argv: list[str]) -> None:
    for name in ("argparse", "columns"):
        for problem in check_argv(toy(name), ("--model", "s3cret-value", "s3cret-value", *argv)):
            assert "s3cret" not in problem.message
