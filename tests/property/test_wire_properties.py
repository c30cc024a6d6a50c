"""No text whatever breaks the decoders, and what they take survives being sent on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llmgw_core.spec import Unknown, Value, WireError, decode, decode_gateway, encode

GOLDEN = Path(__file__).parents[1] / "contract" / "golden"
RECORDED = {
    "agent": tuple(file.read_text() for file in sorted((GOLDEN / "agent").glob("*.json"))),
    "gateway": tuple(file.read_text() for file in sorted((GOLDEN / "gateway").glob("*.json"))),
}
DECODERS: dict[str, Callable[[str], Value]] = {"agent": decode, "gateway": decode_gateway}

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) within a JSON value."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, inner in tuple(items):
        yield data, key
        yield from places(inner)


@st.composite
def mutated(draw: st.DrawFn, channel: str) -> str:
    """A recorded message with a few of its parts replaced or removed."""
    data = json.loads(draw(st.sampled_from(RECORDED[channel])))
    for _ in range(draw(st.integers(1, 3))):
        where = tuple(places(data))
        if not where:
            break
        container, key = draw(st.sampled_from(where))
        if draw(st.booleans()):
            container[key] = draw(JSON)
        else:
            del container[key]
    return json.dumps(data)


@st.composite
def cut(draw: st.DrawFn, channel: str) -> str:
    """A recorded message with text removed from it or put into it."""
    text = draw(st.sampled_from(RECORDED[channel]))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, len(text)))
    return text[:start] + draw(st.text(max_size=5)) + text[end:]


def taken(channel: str, text: str) -> Value | None:
    """The message, None when it is refused; any error but WireError is a failure of the test."""
    try:
        return DECODERS[channel](text)
    except WireError:
        return None


@pytest.mark.parametrize("channel", DECODERS)
@RELAXED
@given(data=st.data())
def test_any_text_is_a_message_or_a_wire_error(channel: str, data: st.DataObject) -> None:
    taken(channel, data.draw(st.text() | JSON.map(json.dumps) | cut(channel)))


@pytest.mark.parametrize("channel", DECODERS)
@settings(RELAXED, max_examples=300)
@given(data=st.data())
def test_what_is_taken_survives_encoding_and_decoding(channel: str, data: st.DataObject) -> None:
    message = taken(channel, data.draw(mutated(channel)))
    if message is not None and not isinstance(message, Unknown):
        assert DECODERS[channel](encode(message)) == message
