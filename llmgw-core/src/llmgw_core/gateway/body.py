"""A JSON body as bytes: how deep it nests, where its `model` stands. Nothing here re-serialises.

An engine must get the bytes that the client sent (numbers included, which a round trip would change), so
an alias is replaced in place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import orjson

# Possessive quantifiers: without them a body of backslashes would take exponential time.
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_STRINGS = re.compile(_STRING, re.DOTALL)
_TOKENS = re.compile(_STRING + rb"|[\[\]{}:,]", re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")


@dataclass(frozen=True)
class Span:
    """Part of a body: from `start` up to, not including, `end`."""

    start: int
    end: int


def deeper_than(body: bytes, limit: int) -> bool:
    """Whether arrays and objects nest deeper than `limit`; a body that is cut off counts as far as it goes.

    Works on the brackets alone, one level a pass, so that the time is linear and spent outside Python.
    """
    brackets = _STRINGS.sub(b"", body).translate(_ONE_KIND, _NOT_BRACKETS)
    for _ in range(limit):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    # Pairs that are left are deeper than the passes made; brackets without a partner are no valid JSON.
    return b"[]" in brackets or brackets.count(b"[") > limit


def top_level_values(body: bytes, name: str) -> list[Span]:
    """Where the values of the top-level members called `name` stand, quotes included.

    `body` is valid JSON with an object at the top. More than one span is a duplicate key, about which
    gateway and engine may disagree. Of a value that is not a string only the place is given.
    """
    spans: list[Span] = []
    depth, key, is_value = 0, None, False
    for token in _TOKENS.finditer(body):
        text = token.group()
        if text in (b"{", b"["):
            depth += 1
        elif text in (b"}", b"]"):
            depth -= 1
        elif depth != 1:
            continue
        elif text == b":":
            is_value = True
            if key == name:
                spans.append(Span(token.end(), token.end()))
        elif text == b",":
            is_value = False
        elif not is_value:
            key = orjson.loads(text)
        elif key == name:
            spans[-1] = Span(token.start(), token.end())
    return spans


def replaced(body: bytes, span: Span, value: str) -> bytes:
    """`body` with the JSON string `value` at `span`."""
    return body[: span.start] + orjson.dumps(value) + body[span.end :]
