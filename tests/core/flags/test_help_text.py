"""Help of any style becomes a table of flags; a part of one says that it is a part."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmgw_core.spec import Arity, FlagTable, Grammar, help_program, parse_help
from llmgw_core.spec.help_text import MAX_HELP_CHARS

Toy = Callable[[str], FlagTable]
Sample = Callable[[str], str]


def shapes(table: FlagTable) -> dict[str, tuple[Arity, tuple[str, ...]]]:
    return {flag.names[-1]: (flag.arity, flag.choices) for flag in table.flags}


def test_argparse(toy: Toy) -> None:
    table = toy("argparse")
    assert table.complete, table.incomplete_because
    assert shapes(table) == {
        "--help": (Arity.NONE, ()),
        "-m": (Arity.ONE, ()),
        "--host": (Arity.ONE, ()),
        "--port": (Arity.ONE, ()),
        "--port-range": (Arity.ONE, ()),
        "--workers": (Arity.MANY, ()),
        "--tags": (Arity.ANY, ()),
        "--token": (Arity.OPTIONAL, ()),
        "--size": (Arity.TWO, ()),
        "--dtype": (Arity.ONE, ("auto", "half", "bf16")),
        "--no-cache": (Arity.NONE, ()),
        "--plugin": (Arity.ONE, ()),
    }
    assert table.by_name["--model"].names == ("--model", "-m")
    assert table.by_name["--model"].metavar == "MODEL"
    assert table.by_name["--cache"] is table.by_name["--no-cache"]
    assert table.by_name["--host"].default == "127.0.0.1"
    assert [flag.names[-1] for flag in table.flags if flag.repeatable] == ["--plugin"]
    assert table.grammar == Grammar(underscores=False)


def test_click(toy: Toy) -> None:
    table = toy("click")
    assert table.complete, table.incomplete_because
    assert shapes(table) == {
        "--address": (Arity.ONE, ()),
        "--style": (Arity.ONE, ("auto", "plain", "pretty")),
        "--no-colour": (Arity.NONE, ()),
        "--verbose": (Arity.NONE, ()),
        "--help": (Arity.NONE, ()),
    }
    assert table.by_name["--address"].env == "TOY_ADDRESS"
    assert table.by_name["-v"].names == ("-v", "--verbose")
    assert table.grammar == Grammar(prefixes=False, underscores=False)


def test_two_columns_like_llama_cpp(toy: Toy) -> None:
    table = toy("columns")
    assert table.complete, table.incomplete_because
    assert shapes(table) == {
        "--help": (Arity.NONE, ()),
        "--ctx-size": (Arity.ONE, ()),
        "--flash": (Arity.ONE, ("on", "off", "auto")),
        "--cache-type": (Arity.ONE, ("f32", "f16", "q8_0")),
        "--no-offload": (Arity.NONE, ()),
        "--load-mode": (Arity.ONE, ("none", "mmap", "auto")),
        "--level": (Arity.ONE, ()),
        "--strict": (Arity.ONE, ("0", "1")),
        "--range": (Arity.TWO, ()),
        "--override": (Arity.ONE, ()),
        "--spec-n-max": (Arity.ONE, ()),
    }
    assert table.by_name["-c"].env == "TOY_CTX_SIZE"
    assert table.by_name["-c"].default == "0"
    assert table.grammar == Grammar(prefixes=False, equals=False, greedy=True)


def test_a_flag_that_is_listed_only_to_be_refused_is_absent(toy: Toy) -> None:
    (gone,) = toy("columns").absent
    assert (gone.name, gone.instead) == ("--draft", ("--spec-n-max",))


@pytest.mark.parametrize("name", ("argparse", "click", "columns"))
def test_colour_other_line_ends_and_tabs_change_nothing(sample: Sample, toy: Toy, name: str) -> None:
    text = sample(name)
    coloured = text.replace("--", "\x1b[1;36m--").replace(" ", " \x1b[0m").replace("\n", "\r\n")
    assert parse_help(coloured, engine="toy", version="1.0") == toy(name)


@pytest.mark.parametrize(
    ("name", "program"), (("argparse", "toy serve"), ("click", "toy start"), ("columns", ""))
)
def test_the_program_that_printed_it(sample: Sample, name: str, program: str) -> None:
    assert help_program(sample(name)) == program


def cut(text: str, *, before: str) -> str:
    return text[: text.index(before)]


@pytest.mark.parametrize(
    ("name", "before", "sign"),
    (
        ("argparse", "A port. (default", "its last line does not end"),
        (
            "argparse",
            "  --dtype {auto,half,bf16}\n      ",
            "its usage names flags that it does not describe: --dt",
        ),
        ("argparse", "                 [--tags", "it describes no flag"),
        ("click", "  --help  ", "it does not list --help"),
        ("columns", "                                        allowed", ""),
        ("columns", "-ctk,", ""),
        ("columns", "0 = from the model", "its last entry ends inside of a parenthesis"),
    ),
)
def test_a_help_that_is_cut_says_so_where_that_can_be_seen(
    sample: Sample, name: str, before: str, sign: str
) -> None:
    table = parse_help(cut(sample(name), before=before), engine="toy", version="1.0")
    assert sign in table.incomplete_because
    assert table.complete is (not sign)


def test_the_end_alone_is_cut_too(sample: Sample) -> None:
    text = sample("columns")
    table = parse_help(text[text.index("-c, ") :], engine="toy", version="1.0")
    assert table.incomplete_because == "it does not list --help"


@pytest.mark.parametrize("mark", ("...", "[truncated 200 lines]", "-- More --", "…"))
def test_the_mark_of_something_that_cuts_is_seen(sample: Sample, mark: str) -> None:
    head, middle, tail = sample("columns").partition("--strict")
    table = parse_help(f"{head}{mark}\n{middle}{tail}", engine="toy", version="1.0")
    assert "it has a line" in table.incomplete_because


def test_an_overview_that_names_a_longer_help_is_not_whole(sample: Sample) -> None:
    text = sample("argparse").replace("Serves a toy.", "Use --help=all for all flags.")
    assert "overview" in parse_help(text, engine="toy", version="1.0").incomplete_because


def test_a_text_too_long_is_read_up_to_a_limit(sample: Sample) -> None:
    text = sample("columns") + "x" * MAX_HELP_CHARS
    table = parse_help(text, engine="toy", version="1.0")
    assert "only the first" in table.incomplete_because
    assert "--flash" in table.by_name


pieces = st.sampled_from(
    (
        "--a",
        "-b",
        "\n",
        "  ",
        ", ",
        "[",
        "]",
        "{x,y}",
        "<",
        ">",
        "...",
        "=",
        "|",
        "usage: ",
        "options:",
        "(env: X)",
    )
)


@given(st.one_of(st.text(), st.lists(st.one_of(pieces, st.text(max_size=5))).map("".join)))
def test_no_text_breaks_the_reader(text: str) -> None:
    table = parse_help(text, engine="toy", version="1.0")
    assert table.complete is (not table.incomplete_because)
    assert all(name.startswith("-") for name in table.by_name)
    help_program(text)


ENTRIES = {"argparse": "  -h, --help", "click": "  --address", "columns": "-h,"}


@given(data=st.data(), name=st.sampled_from(sorted(ENTRIES)))
def test_a_part_of_a_help_never_describes_a_flag_that_the_whole_does_not(
    sample: Sample, toy: Toy, data: st.DataObject, name: str
) -> None:
    text = sample(name)
    first = text.index("\n", text.index(ENTRIES[name])) + 1
    end = data.draw(st.integers(first, len(text)))
    table = parse_help(text[:end].rpartition("\n")[0], engine="toy", version="1.0")
    assert table.by_name.keys() <= toy(name).by_name.keys()
