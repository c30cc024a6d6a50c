"""Ranges of engine versions."""

from __future__ import annotations

import pytest
from llmgw_core.spec import BinarySpec, EngineInfo, parse_version_range

ENGINE = EngineInfo(name="e", title="E", binary=BinarySpec(names=("e",)), paths=())


@pytest.mark.parametrize(
    ("versions", "inside", "outside"),
    (
        ("", ("0.1", "b99"), ()),
        (">=0.10", ("0.10", "0.10.0", "0.11", "1"), ("0.9", "0.9.9")),
        (">=0.10,<0.12", ("0.10.2", "0.11"), ("0.12", "0.12.0", "0.9")),
        ("==0.10", ("0.10", "0.10.0"), ("0.10.1",)),
        ("!=0.10", ("0.10.1",), ("0.10.0",)),
        ("<= 0.10", ("0.10", "0.9"), ("0.10.1",)),
        (">0.10", ("0.10.1",), ("0.10",)),
        ("~=0.10.1", ("0.10.1", "0.10.9"), ("0.10.0", "0.11.0")),
        (">=b11000", ("b11549",), ("b10999",)),
    ),
)
def test_a_range_holds_what_its_clauses_say(
    versions: str, inside: tuple[str, ...], outside: tuple[str, ...]
) -> None:
    found = parse_version_range(versions)
    assert [found.contains(ENGINE, version) for version in inside] == [True] * len(inside)
    assert [found.contains(ENGINE, version) for version in outside] == [False] * len(outside)


@pytest.mark.parametrize("text", ("0.10", ">=", ">=0.10,", "=>0.10", ">=new", ">=0.10 <0.12", "latest"))
def test_what_is_no_range_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match=r"write for instance >=0.10,<0.12"):
        parse_version_range(text)
