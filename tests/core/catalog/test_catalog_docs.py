"""docs/catalog.md: its examples load, and it documents every key with its real default."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
from llmgw_core.catalog.load import LoadedCatalog
from llmgw_core.catalog.schema import CatalogFile, ModelFile, ProfileFile
from llmgw_core.spec import parse_duration
from pydantic import BaseModel
from pydantic.fields import FieldInfo

PAGE = (Path(__file__).parents[3] / "docs" / "catalog.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ROWS = dict(re.findall(r"^\| `([a-z_.]+)` \| (.*?) \|", PAGE, re.MULTILINE))


def keys(kind: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key of a part of the file, those of its parts as `part.key`."""
    for name, field in kind.model_fields.items():
        parts = [part for part in (field.annotation, *get_args(field.annotation)) if isinstance(part, type)]
        inner = next((part for part in parts if issubclass(part, BaseModel)), None)
        if inner is None:
            yield prefix + name, field
        else:
            yield from keys(inner, f"{name}.")


ALL = {**dict(keys(CatalogFile)), **dict(keys(ModelFile)), **dict(keys(ProfileFile))}


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_loads_without_a_warning(example: str, load: Callable[[str], LoadedCatalog]) -> None:
    loaded = load(example)
    assert loaded.warnings == ()
    assert loaded.catalog.models


def test_there_is_a_small_example_and_one_with_every_key() -> None:
    assert len(EXAMPLES) == 2
    assert [key for key in ALL if f"{key.rpartition('.')[2]}:" not in EXAMPLES[1]] == []


def test_every_key_is_documented_and_no_other() -> None:
    assert set(ROWS) == set(ALL) | {"profiles"}


def as_written(text: str) -> object:
    """The value that a documented default stands for."""
    word = text.strip("`")
    known: dict[str, object] = {"true": True, "false": False, "[]": [], "{}": {}}
    if word in known:
        return known[word]
    if word.isdigit():
        return int(word)
    return parse_duration(word) if word[0].isdigit() else word


@pytest.mark.parametrize("key", [key for key in ALL if ROWS[key].startswith("`")])
def test_the_documented_default_is_the_real_one(key: str) -> None:
    assert ALL[key].default == as_written(ROWS[key])


def test_a_default_in_words_is_none_in_the_schema() -> None:
    in_words = {key for key in ALL if not ROWS[key].startswith("`")}
    fixed = {key for key in in_words if not ALL[key].is_required() and ALL[key].default is not None}
    # `defaults: none` is an empty mapping.
    assert fixed == {"defaults"}
