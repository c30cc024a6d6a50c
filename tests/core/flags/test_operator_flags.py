"""What an operator may write under engine_args: no flag of llmgw's own in any spelling, and what is there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmgw_core.spec import (
    BinarySpec,
    EngineInfo,
    Flag,
    FlagTable,
    Grammar,
    argument_fault,
    owned_flag,
    resolve,
)

Toy = Callable[[str], FlagTable]
INFO = EngineInfo(name="toy", title="Toy", binary=BinarySpec(names=("toy",)), paths=())
FLAGS = (
    Flag(names=("--tensor-parallel-size", "-tp")),
    Flag(names=("--nodes", "-n")),
    Flag(names=("--enable-lora", "--no-enable-lora")),
    Flag(names=("--log",)),
    Flag(names=("--log-level",)),
    Flag(names=("--tokenizer",)),
)
OWNED = ("--tensor-parallel-size", "--nodes", "--enable-lora", "--log-level")


def table(grammar: Grammar) -> FlagTable:
    return FlagTable(engine="toy", version="1", source="captured help", grammar=grammar, flags=FLAGS)


ARGPARSE = table(Grammar(underscores=True, dotted=True))
EXACT = table(Grammar(prefixes=False, equals=False))
SPELLINGS = (
    "--tensor-parallel-size",
    "tensor-parallel-size",
    "tensor_parallel_size",
    "--tensor_parallel_size",
    "--tensor-parallel-size=2",
    "tensor-parallel_size=2",
    "-tp",
    "tp",
    "-tp=2",
    " tensor-parallel-size ",
    "no-tensor-parallel-size",
    "tensor-parallel-size.x",
    "tensor_parallel_size.x.y=1",
)
BEGINNINGS = ("--tensor-parallel-siz", "tensor_para", "--t", "ten=2", "no-tensor-par")


@pytest.mark.parametrize("word", SPELLINGS)
@pytest.mark.parametrize("known", (ARGPARSE, EXACT), ids=("argparse", "exact"))
def test_an_owned_flag_is_seen_in_every_spelling(known: FlagTable, word: str) -> None:
    assert owned_flag((known,), OWNED, word) == "--tensor-parallel-size"


@pytest.mark.parametrize("word", BEGINNINGS)
def test_the_beginning_of_an_owned_name_counts_where_the_engine_takes_that(word: str) -> None:
    assert owned_flag((ARGPARSE,), OWNED, word) == "--tensor-parallel-size"
    assert owned_flag((EXACT,), OWNED, word) is None


def test_a_letter_with_its_value_attached_counts_where_the_engine_takes_that() -> None:
    assert owned_flag((ARGPARSE,), OWNED, "-n2") == "--nodes"
    assert owned_flag((EXACT,), OWNED, "-n2") is None


@pytest.mark.parametrize("word", ("enable-lora", "no-enable-lora", "no_enable_lora", "--no-enable-lora"))
def test_the_opposite_of_an_owned_flag_is_owned(word: str) -> None:
    assert owned_flag((EXACT,), OWNED, word) == "--enable-lora"


@pytest.mark.parametrize("word", ("log", "--log", "tokenizer", "log=3"))
def test_a_flag_of_its_own_is_free_though_an_owned_one_begins_like_it(word: str) -> None:
    assert owned_flag((ARGPARSE,), OWNED, word) is None


@pytest.mark.parametrize("word", ("swap-space", "nodes-file", "tp-x", "x=--nodes"))
def test_other_words_are_free(word: str) -> None:
    assert owned_flag((ARGPARSE,), OWNED, word) is None


def test_the_spelling_of_one_release_counts_for_all() -> None:
    older = FlagTable(engine="toy", version="0", source="parsed sources", flags=(Flag(names=("--nodes",)),))
    assert owned_flag((older, EXACT), OWNED, "tp") == "--tensor-parallel-size"


@given(word=st.text(), known=st.sampled_from((ARGPARSE, EXACT)))
def test_whatever_the_engine_would_take_for_an_owned_flag_is_owned(word: str, known: FlagTable) -> None:
    taken = {name for flag in resolve(known, f"--{word.strip()}") for name in flag.names}
    if taken & set(OWNED) and not known.by_name.keys() & {f"--{word.strip()}"} - set(OWNED):
        assert owned_flag((known,), OWNED, word) is not None


@pytest.mark.parametrize(
    ("word", "names"),
    (
        ("--nodes", ["--nodes"]),
        ("--nodes=2", ["--nodes"]),
        ("--no", ["--nodes", "--enable-lora"]),
        ("--nod", ["--nodes"]),
        ("--log", ["--log"]),
        ("--log_level", ["--log-level"]),
        ("--log.a.b", ["--log"]),
        ("-n", ["--nodes"]),
        ("nodes", []),
        ("--x", []),
    ),
)
def test_what_argparse_takes_a_word_for(word: str, names: list[str]) -> None:
    assert [flag.names[0] for flag in resolve(ARGPARSE, word)] == names


def test_an_exact_engine_takes_no_beginning_and_no_equals_sign() -> None:
    assert resolve(EXACT, "--nod") == ()
    assert resolve(EXACT, "--nodes=2") == ()


# --- what a release takes ----------------------------------------------------------------------------


@pytest.fixture
def releases(toy: Toy) -> tuple[FlagTable, ...]:
    """A release read in the sources, and a later one whose help was captured."""
    captured = toy("columns").model_copy(update={"version": "2.0"})
    older = FlagTable(
        engine="toy",
        version="1.0",
        source="parsed sources",
        complete=False,
        flags=(Flag(names=("--draft",)), Flag(names=("--ctx-size",))),
    )
    return (older, captured)


@pytest.mark.parametrize("version", ("2.0", "2.0+cpu"))
@pytest.mark.parametrize(
    ("items", "fault"),
    (
        (("--ctx-size", "4"), None),
        (("--ctx-sise", "4"), "Toy 2.0: there is no such flag; did you mean --ctx-size?"),
        (("--flash", "maybe"), "Toy 2.0: its value is none of on, off, auto"),
        (("--flash",), "Toy 2.0: it takes one value, and has 0"),
        (("--draft", "4"), "Toy 2.0: 2.0 does not have it; use --spec-n-max"),
    ),
)
def test_the_table_of_the_version_itself_has_the_last_word(
    releases: tuple[FlagTable, ...], version: str, items: tuple[str, ...], fault: str | None
) -> None:
    assert argument_fault(releases, INFO, version, items) == fault


@pytest.mark.parametrize(
    ("items", "refused"),
    (
        (("--new-flag", "4"), False),
        (("--flash", "maybe"), False),
        (("--draft", "4"), True),
        (("--flash",), True),
    ),
)
def test_a_newer_release_may_have_more_but_not_less(
    releases: tuple[FlagTable, ...], items: tuple[str, ...], *, refused: bool
) -> None:
    assert (argument_fault(releases, INFO, "2.5", items) is not None) is refused


def test_a_table_that_is_not_whole_leaves_what_it_does_not_know_to_the_engine(
    releases: tuple[FlagTable, ...],
) -> None:
    assert argument_fault(releases, INFO, "1.0", ("--anything",)) is None


@pytest.mark.parametrize(
    ("name", "refused"), (("--draft", False), ("--flash", False), ("--nobody-has-it", True))
)
def test_without_a_version_only_what_no_release_has_is_refused(
    releases: tuple[FlagTable, ...], name: str, *, refused: bool
) -> None:
    assert (argument_fault(releases, INFO, "", (name, "x")) is not None) is refused


def test_without_tables_nothing_is_refused() -> None:
    assert argument_fault((), INFO, "1", ("--x",)) is None
