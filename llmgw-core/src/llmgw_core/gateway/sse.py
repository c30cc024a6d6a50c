"""Watches an event stream on its way to the client: did the engine really finish?

Engines are not to be believed about their ends: one that is stopped may close its streams with `[DONE]`
and no finish reason (vLLM at SIGTERM), another reports an error and then says `[DONE]`. A client takes
`[DONE]` for "complete", so it is passed on only after a finish reason. Bytes are never changed, and only
whole events are passed on: an error event can then follow at any point, and half an event never looks
like one.
"""

from __future__ import annotations

import re

import orjson

from llmgw_core.traffic.usage import TokenCounts, counts_of_stream

MAX_EVENT = 1024 * 1024
"""Bytes of one event; more in one piece is no event stream, and memory must stay bounded."""
_EVENT_END = re.compile(rb"\n\r?\n")
_DONE = re.compile(rb"^data: ?\[DONE\]\s*$", re.MULTILINE)
_HAS_REASON = re.compile(rb'"finish_reason"\s*:\s*"')
_HAS_USAGE = re.compile(rb'"usage"\s*:\s*\{')


class BrokenStream(Exception):
    """Raised when an engine's event stream is not what it should be. The text is for logs."""


class StreamWatch:
    """Takes the engine's bytes and gives back those that may go to the client, at once when it can."""

    def __init__(self) -> None:
        self.finished = False
        """The engine gave a finish reason."""
        self.done = False
        """The engine said `[DONE]`, and truly."""
        self._held = b""
        self._usage = b""

    def feed(self, chunk: bytes) -> bytes:
        """The whole events that `chunk` completes.

        Raises BrokenStream when the engine says `[DONE]` without a finish reason, or an event has no end.
        """
        data = self._held + chunk
        out, start = bytearray(), 0
        for end in _EVENT_END.finditer(data, max(0, len(self._held) - 2)):
            event, start = data[start : end.end()], end.end()
            self._judge(event)
            out += event
        self._held = data[start:]
        if len(self._held) > MAX_EVENT:
            raise BrokenStream(f"an event larger than {MAX_EVENT} bytes")
        return bytes(out)

    def end(self) -> bytes:
        """The engine closed its stream: the rest that may go on. Raises BrokenStream if it was too early."""
        rest, self._held = self._held, b""
        if rest.strip():
            if not _DONE.search(rest):
                raise BrokenStream("the stream ended within an event")
            self._judge(rest)
        if not self.finished:
            raise BrokenStream("the stream ended without a finish reason")
        return rest

    def counts(self) -> TokenCounts:
        """Token counts, as far as the engine reported them."""
        return counts_of_stream(self._usage)

    def _judge(self, event: bytes) -> None:
        if not self.finished and _HAS_REASON.search(event):
            self.finished = any(_gives_reason(line) for line in event.splitlines())
        if _HAS_USAGE.search(event):
            self._usage = event
        if _DONE.search(event):
            if not self.finished:
                raise BrokenStream("[DONE] without a finish reason")
            self.done = True


def _gives_reason(line: bytes) -> bool:
    """Whether a line's data has a choice with a finish reason, and not just text that looks like one."""
    try:
        data = orjson.loads(line.removeprefix(b"data:"))
    except orjson.JSONDecodeError:
        return False
    choices = data.get("choices") if isinstance(data, dict) else None
    if not isinstance(choices, list):
        return False
    return any(isinstance(choice, dict) and choice.get("finish_reason") for choice in choices)
