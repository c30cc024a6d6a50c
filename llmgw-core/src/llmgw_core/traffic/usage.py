"""Token counts as engines report them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

_EVENT_DATA = b"data:"


@dataclass(frozen=True)
class TokenCounts:
    """Tokens of one request; None = the engine did not say, which is not zero."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None


UNKNOWN = TokenCounts()
MAX_TOKENS = 10**9
"""More is no count of one request; a number that no database takes would hold up every row beside it."""


def counts_of(answer: Any) -> TokenCounts:
    """The counts in a parsed answer or stream event of the OpenAI form."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    if not isinstance(usage, dict):
        return UNKNOWN
    details = usage.get("prompt_tokens_details")
    return TokenCounts(
        prompt=_count(usage.get("prompt_tokens")),
        completion=_count(usage.get("completion_tokens")),
        cached=_count(details.get("cached_tokens")) if isinstance(details, dict) else None,
    )


def counts_of_stream(tail: bytes) -> TokenCounts:
    """The counts of the last event with any in the last lines of an event stream."""
    for line in reversed(tail.splitlines()):
        if line.startswith(_EVENT_DATA) and b'"usage"' in line:
            counts = counts_of(_parsed(line.removeprefix(_EVENT_DATA)))
            if counts != UNKNOWN:
                return counts
    return UNKNOWN


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _count(value: Any) -> int | None:
    # A bool is an int to Python, and a negative count would be subtracted from somebody's bill.
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= MAX_TOKENS else None
