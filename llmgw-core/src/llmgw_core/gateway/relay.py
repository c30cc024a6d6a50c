"""Passes an engine's answer on to the client. What is raised before that has begun may be retried."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import anyio
import orjson

from llmgw_core.gateway.answer import ClientAnswer
from llmgw_core.gateway.exchange import Exchange
from llmgw_core.gateway.openai import ApiError
from llmgw_core.gateway.sse import StreamWatch
from llmgw_core.gateway.upstream import UpstreamFailed, UpstreamReply
from llmgw_core.traffic.usage import counts_of

MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of an answer that is not streamed: it is held until it is known to be whole."""
AFTER_DONE = 1.0
"""Seconds in which an engine should close its stream after `[DONE]`; then its connection is used again."""
EVENT_STREAM = "text/event-stream"
_TRY_ELSEWHERE = frozenset({502, 503, 504})
_NOT_IMPLEMENTED = 501
_REFUSES_US = frozenset({401, 403})


class UpstreamTimeout(Exception):
    """Raised when an engine takes too long for `phase` of an answer."""

    def __init__(self, phase: str, seconds: float) -> None:
        super().__init__(f"the engine took longer than {seconds:g} s {phase}")


@contextmanager
def time_limit(seconds: float, phase: str) -> Iterator[None]:
    """Raise UpstreamTimeout when the block waits longer than that."""
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        raise UpstreamTimeout(phase, seconds) from None


def check_status(status: int) -> None:
    """Raise UpstreamFailed for an answer that says more about the engine than about the request."""
    if status in _TRY_ELSEWHERE:
        raise UpstreamFailed(f"the engine answered {status}")
    if status in _REFUSES_US:
        raise UpstreamFailed(f"the engine refused the gateway's own key with {status}")


async def relay(reply: UpstreamReply, answer: ClientAnswer, exchange: Exchange) -> None:
    """Pass `reply` on: as a stream when that was asked for and is what it is, as a whole otherwise.

    Raises UpstreamFailed, BrokenStream or UpstreamTimeout; `answer.begun` tells whether the client has
    already got some of it. Raises ApiError for an answer that no client can use.
    """
    ok = 200 <= reply.status < 300
    if ok and exchange.streamed and reply.content_type == EVENT_STREAM:
        await _relay_stream(reply, answer, exchange)
        exchange.ended(reply.status, "ok")
        return
    body = await _read(reply)
    exchange.note_first_token()
    if ok:
        exchange.counts = counts_of(_object(body, streamed=exchange.streamed))
        exchange.ended(reply.status, "ok")
    else:
        _check_refusal(reply.status, body)
        exchange.ended(reply.status, "refused")
    await answer.whole(reply.status, body)


async def _relay_stream(reply: UpstreamReply, answer: ClientAnswer, exchange: Exchange) -> None:
    watch = StreamWatch()
    # The counts are noted on every way out: a stream that broke has used tokens all the same.
    try:
        async with aclosing(_until_done(reply, watch, exchange)) as chunks:
            async for chunk in chunks:
                await _pass_on(watch.feed(chunk), answer, exchange)
                if watch.done:
                    # The client has all of it, and may close before the engine does.
                    exchange.ended(reply.status, "ok")
        await _pass_on(watch.end(), answer, exchange)
    finally:
        exchange.counts = watch.counts()
    await answer.write(b"", last=True)


async def _until_done(reply: UpstreamReply, watch: StreamWatch, exchange: Exchange) -> AsyncGenerator[bytes]:
    """The chunks of an answer, each within its time; what goes wrong after a true `[DONE]` is no loss."""
    async with aclosing(reply.chunks()) as chunks:
        while True:
            seconds, phase = _patience(watch, exchange)
            try:
                with time_limit(seconds, phase):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except (UpstreamFailed, UpstreamTimeout):
                if watch.done:
                    return
                raise
            yield chunk


def _patience(watch: StreamWatch, exchange: Exchange) -> tuple[float, str]:
    """How long to wait for the next piece, in seconds, and what for."""
    limits = exchange.model.timeouts
    if watch.done:
        return AFTER_DONE, "to close its stream"
    if exchange.first_token is None:
        return limits.first_byte, "to begin its answer"
    return limits.between_chunks, "between two pieces of the answer"


async def _pass_on(events: bytes, answer: ClientAnswer, exchange: Exchange) -> None:
    if not events:
        return
    exchange.note_first_token()
    if not answer.begun:
        await answer.begin(200, EVENT_STREAM, {"cache-control": "no-cache"})
    await answer.write(events)


async def _read(reply: UpstreamReply) -> bytes:
    body = bytearray()
    async with aclosing(reply.chunks()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > MAX_ANSWER:
                raise _invalid_answer(f"is larger than {MAX_ANSWER} bytes")
    return bytes(body)


def _object(body: bytes, *, streamed: bool) -> Any:
    """The JSON object of a good answer. Raises ApiError when it is not one, or should have been a stream."""
    if streamed:
        raise _invalid_answer("is not the event stream that was asked for")
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise _invalid_answer("is not valid JSON") from None
    if not isinstance(parsed, dict):
        raise _invalid_answer("is not a JSON object")
    return parsed


def _check_refusal(status: int, body: bytes) -> None:
    """A 4xx in the OpenAI form goes on as it is. Raises ApiError for every other answer."""
    if status == _NOT_IMPLEMENTED:
        # llama.cpp says so of embeddings while it runs a chat model: the request is wrong, not the engine.
        raise ApiError(400, "not_supported", "The engine cannot do this with the model that it runs.")
    if not 400 <= status < 500:
        raise ApiError(502, "upstream_error", f"The engine failed with status {status}.")
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict) or not isinstance(parsed.get("error"), dict):
        raise ApiError(status, "refused_by_engine", f"The engine refused the request with status {status}.")


def _invalid_answer(what: str) -> ApiError:
    return ApiError(502, "upstream_invalid_response", f"The engine's answer {what}.")
