"""Token counts as engines write them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llmgw_core.traffic.usage import UNKNOWN, TokenCounts, counts_of, counts_of_stream

USAGE = {"prompt_tokens": 3, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 2}}


def test_all_counts_are_read() -> None:
    assert counts_of({"usage": USAGE}) == TokenCounts(prompt=3, completion=0, cached=2)


@pytest.mark.parametrize(
    "answer", (None, [], {}, {"usage": None}, {"usage": []}, {"usage": {}}, {"usage": {"prompt_tokens": "3"}})
)
def test_what_is_not_said_is_unknown(answer: Any) -> None:
    assert counts_of(answer) == UNKNOWN


@pytest.mark.parametrize("value", (-1, True, 2.5, "3", None, [3], 2**63))
def test_a_count_is_a_number_that_can_be_one(value: Any) -> None:
    usage = {
        "prompt_tokens": value,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": value},
    }
    assert counts_of({"usage": usage}) == TokenCounts(completion=1)


def events(*usages: Any) -> bytes:
    return b"".join(b"data: " + json.dumps({"usage": usage}).encode() + b"\n\n" for usage in usages)


def test_of_a_stream_the_last_counts_are_taken() -> None:
    tail = events({"prompt_tokens": 1}, USAGE, None) + b'data: {"usage": cut\n\ndata: [DONE]\n\n'
    assert counts_of_stream(tail) == TokenCounts(prompt=3, completion=0, cached=2)


def test_a_stream_without_counts_is_unknown() -> None:
    assert counts_of_stream(events(None)) == UNKNOWN
    assert counts_of_stream(b"") == UNKNOWN
