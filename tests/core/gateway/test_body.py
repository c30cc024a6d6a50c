"""Bodies as bytes: depth and the place of the model's name, checked against a real parse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmgw_core.gateway.body import deeper_than, replaced, top_level_values
from llmgw_core.gateway.request import parse

TEXTS = st.text(alphabet='ab"\\[]{}:,model\n\u00e9', max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.just("model"), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)
SPACINGS = st.sampled_from(((",", ":"), (" , ", " : "), (",\n", ":\t")))


def depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(VALUES, SPACINGS, st.booleans())
def test_depth_is_the_depth_of_the_parsed_value(
    value: Any, spacing: tuple[str, str], ascii_only: bool
) -> None:
    body = json.dumps(value, separators=spacing, ensure_ascii=ascii_only).encode()
    deepest = depth(value)
    assert not deeper_than(body, deepest)
    assert deepest == 0 or deeper_than(body, deepest - 1)


@given(OBJECTS, OBJECTS, TEXTS, SPACINGS)
def test_only_the_top_level_model_is_replaced(
    before: dict[str, Any], after: dict[str, Any], model: str, spacing: tuple[str, str]
) -> None:
    members = {**before, "model": model, **{name: value for name, value in after.items() if name != "model"}}
    body = json.dumps(members, separators=spacing).encode()
    (span,) = top_level_values(body, "model")
    assert json.loads(body[span.start : span.end]) == model
    changed = replaced(body, span, 'n"ew')
    assert json.loads(changed) == {**members, "model": 'n"ew'}
    assert changed[: span.start] == body[: span.start]
    assert changed.endswith(body[span.end :])


@pytest.mark.parametrize(
    ("body", "count"),
    (
        (b"{}", 0),
        (b'{"x":{"model":"a"}}', 0),
        (b'{"x":"model","y":["model","model"]}', 0),
        (b'{"model":{"model":"a"}}', 1),
        (b'{"model":"a","model":"a"}', 2),
        (b'{"m\\u006fdel":1,"model":null}', 2),
    ),
)
def test_every_spelling_of_a_top_level_key_counts(body: bytes, count: int) -> None:
    assert len(top_level_values(body, "model")) == count


@pytest.mark.parametrize(
    "hostile", (b'"' + b"\\" * 200_000, b"[" * 60_000, b'{"a":' * 12_000, b'"[' * 30_000)
)
def test_hostile_bodies_are_judged_without_trouble(hostile: bytes) -> None:
    """Backtracking or recursion over these would take minutes, or end the process."""
    deeper_than(hostile, 64)
    top_level_values(hostile, "model")


def test_a_name_given_once_is_sent_as_it_came() -> None:
    body = b'{"m\\u006fdel" : "tiny"}'
    request = parse(body)
    assert request.model == "tiny"
    assert request.body_for("tiny") is body
    assert request.body_for("other") == b'{"m\\u006fdel" : "other"}'
