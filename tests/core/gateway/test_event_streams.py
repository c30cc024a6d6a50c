"""StreamWatch: what may pass, whatever the chunks are cut into."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmgw_core.gateway.sse import MAX_EVENT, BrokenStream, StreamWatch
from llmgw_core.traffic.usage import TokenCounts

TEXT = b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":null}]}\n\n'
FINISH = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\r\n\r\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n'
COMMENT = b": waiting\n\n"
DONE = b"data: [DONE]\n\n"


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data`, cut at the given places."""
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


@given(st.lists(st.integers(min_value=0, max_value=10_000), max_size=20))
def test_a_whole_stream_passes_unchanged_however_it_is_cut(cuts: list[int]) -> None:
    stream = COMMENT + TEXT + FINISH + USAGE + DONE
    watch = StreamWatch()
    passed = b"".join(watch.feed(piece) for piece in pieces(stream, cuts)) + watch.end()
    assert passed == stream
    assert watch.done
    assert watch.counts() == TokenCounts(prompt=3, completion=4)


@given(st.lists(st.integers(min_value=0, max_value=10_000), max_size=20))
def test_done_without_a_reason_never_passes_however_it_is_cut(cuts: list[int]) -> None:
    watch = StreamWatch()
    passed = bytearray()

    def feed_all() -> None:
        for piece in pieces(TEXT + TEXT + DONE, cuts):
            passed.extend(watch.feed(piece))

    with pytest.raises(BrokenStream, match="without a finish reason"):
        feed_all()
    assert b"[DONE]" not in passed


@given(st.integers(min_value=1, max_value=len(TEXT) - 3))
def test_half_an_event_is_never_passed_on(cut: int) -> None:
    watch = StreamWatch()
    assert watch.feed(TEXT + TEXT[:cut]) == TEXT
    with pytest.raises(BrokenStream):
        watch.end()


def test_a_stream_that_ends_with_done_but_no_blank_line_is_complete() -> None:
    watch = StreamWatch()
    assert watch.feed(FINISH + b"data: [DONE]") == FINISH
    assert watch.end() == b"data: [DONE]"


def test_done_without_a_blank_line_is_judged_too() -> None:
    watch = StreamWatch()
    watch.feed(TEXT + b"data: [DONE]\n")
    with pytest.raises(BrokenStream):
        watch.end()


def test_a_stream_without_done_is_complete_when_it_gave_its_reason() -> None:
    watch = StreamWatch()
    watch.feed(TEXT + FINISH)
    assert watch.end() == b""


def test_done_within_a_text_is_no_end() -> None:
    watch = StreamWatch()
    event = b'data: {"choices":[{"delta":{"content":"data: [DONE]"},"finish_reason":null}]}\n\n'
    assert watch.feed(event) == event
    assert not watch.done


def test_an_event_without_end_is_given_up_when_it_is_too_large() -> None:
    watch = StreamWatch()
    assert watch.feed(b"x" * MAX_EVENT) == b""
    with pytest.raises(BrokenStream, match="larger"):
        watch.feed(b"x")
