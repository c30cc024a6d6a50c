"""Names and variables are those of a real llama-server, as its recorded help lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from llmgw_llamacpp.options import OPTIONS, Option
from llmgw_llamacpp.owned import reason_to_refuse

HELP = Path(__file__).resolve().parents[4] / "shared/engines/llama.cpp/help-11434.txt"
ASKED_BY_LONG_NAME = frozenset({"parallel", "n-gpu-layers"})
"""Written by the operator under these names only; their other spellings are refused."""


@pytest.fixture(scope="module")
def entries() -> list[tuple[frozenset[str], str]]:
    """(spellings, environment variable) of every flag."""
    if not HELP.is_file():
        pytest.skip("the recorded help of llama-server lies beside the repository, and is not here")
    return list(_entries(HELP.read_text()))


def _entries(text: str) -> Iterator[tuple[frozenset[str], str]]:
    for block in re.split(r"\n(?=-)", text):
        head = block.split("\n", 1)[0]
        spellings = re.findall(r"(?<![\w<[|-])--?[a-zA-Z][\w.-]*", re.split(r" {3,}(?=[a-z])", head)[0])
        variable = re.search(r"\(env: (\w+)\)", block)
        if spellings and head.startswith("-") and not head.startswith("-----"):
            yield frozenset(spellings), variable[1] if variable else ""


def test_the_help_is_read(entries: list[tuple[frozenset[str], str]]) -> None:
    assert (frozenset({"-c", "--ctx-size"}), "LLAMA_ARG_CTX_SIZE") in entries
    assert (frozenset({"--ui", "--webui", "--no-ui", "--no-webui"}), "LLAMA_ARG_UI") in entries
    assert len(entries) > 200


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.names[-1])
def test_an_option_of_the_look_alike_has_the_names_of_the_real_one(
    entries: list[tuple[frozenset[str], str]], option: Option
) -> None:
    assert (frozenset((*option.names, *option.off)), option.env) in entries


def test_what_is_owned_in_one_spelling_is_owned_in_all(entries: list[tuple[frozenset[str], str]]) -> None:
    for spellings, _ in entries:
        # Short names are compared without case, so that -C is refused like -c: it has a long name.
        names = {spelling.lstrip("-") for spelling in spellings} - ASKED_BY_LONG_NAME - {"C"}
        assert len({reason_to_refuse(name) is None for name in names}) <= 1, sorted(names)
