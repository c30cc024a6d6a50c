"""Engines that die, hang, lie or answer nonsense: the client is told the truth, whenever it happens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import httpx2
import openai
import pytest
from llmgw_core.spec import RequestTimeouts

pytestmark = pytest.mark.anyio
PATH = "/v1/chat/completions"
KEY = "llmgw-0123456789abcdef0123456789abcdef"
ASK: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]}
STREAM: dict[str, Any] = {**ASK, "stream": True}
Script = Callable[[Any, Any, Any], Awaitable[None]]


async def die(_: Any, connection: Any, __: Any) -> None:
    await connection.cut()


async def die_after_the_head(_: Any, connection: Any, __: Any) -> None:
    await connection.begin_events()
    await connection.cut()


async def die_in_the_middle(_: Any, connection: Any, __: Any) -> None:
    await connection.begin_events()
    await connection.event({"choices": [{"delta": {"content": "Hel"}, "finish_reason": None}]})
    await connection.chunk(b'data: {"choices":[{"delta":{"con')
    await connection.cut()


async def say_done_without_finishing(_: Any, connection: Any, __: Any) -> None:
    await connection.begin_events()
    await connection.event({"choices": [{"delta": {"content": "Hel"}, "finish_reason": None}]})
    await connection.chunk(b"data: [DONE]\n\n")
    await connection.chunk(b"")


async def fail_and_say_done(_: Any, connection: Any, __: Any) -> None:
    await connection.begin_events()
    await connection.event({"choices": [{"delta": {"content": "Hel"}, "finish_reason": None}]})
    await connection.event({"error": {"message": "a worker was lost"}})
    await connection.chunk(b"data: [DONE]\n\n")
    await connection.chunk(b"")


async def end_without_finishing(_: Any, connection: Any, __: Any) -> None:
    await connection.begin_events()
    await connection.event({"choices": [{"delta": {"content": "Hel"}, "finish_reason": None}]})
    await connection.chunk(b"")


async def finish_only_in_the_text(_: Any, connection: Any, __: Any) -> None:
    await connection.begin_events()
    text = '{"choices":[{"finish_reason":"stop"}]} "finish_reason":"stop"'
    await connection.event({"choices": [{"delta": {"content": text}, "finish_reason": None}]})
    await connection.event({"note": {"finish_reason": "stop"}, "choices": [{"finish_reason": None}]})
    await connection.chunk(b"data: [DONE]\n\n")
    await connection.chunk(b"")


async def stream_without_end(_: Any, connection: Any, __: Any) -> None:
    await connection.begin_events()
    await connection.event({"choices": [{"delta": {"content": "Hel"}, "finish_reason": None}]})
    for _ in range(20):
        await connection.chunk(b"x" * 65536)
    await connection.cut()


def answering(status: int, body: bytes = b"{}", content_type: str = "application/json") -> Script:
    async def script(_: Any, connection: Any, __: Any) -> None:
        await connection.whole(status, body, content_type)

    return script


async def collect(stream: AsyncIterator[Any], into: list[Any], each: Callable[[], object] = int) -> None:
    """Put what a stream gives into a list, which is there even if the stream breaks."""
    async for item in stream:
        into.append(item)
        each()


async def broken_stream(world: Any, each: Callable[[], object] = int) -> bytes:
    """What a streaming client has received when the body breaks off, which it must."""
    received: list[bytes] = []
    async with world.client() as client, client.stream("POST", PATH, json=STREAM) as response:
        assert response.status_code == 200
        with pytest.raises(httpx2.RemoteProtocolError):
            await collect(response.aiter_bytes(), received, each)
    return b"".join(received)


def error_events(received: bytes) -> list[dict[str, Any]]:
    events = [json.loads(line[6:]) for line in received.splitlines() if line.startswith(b"data: ")]
    return [event["error"] for event in events if "code" in event.get("error", {})]


@pytest.mark.parametrize(
    "script",
    (
        die_in_the_middle,
        say_done_without_finishing,
        fail_and_say_done,
        end_without_finishing,
        finish_only_in_the_text,
        stream_without_end,
    ),
)
async def test_a_stream_that_did_not_finish_ends_with_an_error_event_and_breaks_off(
    world: Any, script: Script
) -> None:
    engine = await world.add_engine()
    engine.script = script
    received = await broken_stream(world)
    assert b"[DONE]" not in received
    (error,) = error_events(received)
    assert error["code"] == "upstream_disconnected"
    assert error["type"] == "server_error"
    (row,) = await world.rows(1)
    assert (row.status, row.outcome) == (200, "partial")
    assert len(engine.requests) == 1


async def test_the_official_client_raises_when_an_engine_dies_in_the_middle(world: Any) -> None:
    engine = await world.add_engine()
    engine.script = die_in_the_middle
    received: list[Any] = []
    async with openai.AsyncOpenAI(base_url=f"{world.base}/v1", api_key=KEY, max_retries=0) as client:
        stream = await client.chat.completions.create(**STREAM)
        with pytest.raises(openai.APIError, match="ended before"):
            await collect(stream, received)
    assert [chunk.choices[0].delta.content for chunk in received] == ["Hel"]


async def test_a_stream_never_starts_again_on_another_replica(world: Any) -> None:
    dying, other = [await world.add_engine(f"r-{letter * 10}") for letter in "ab"]
    dying.script = die_in_the_middle
    await broken_stream(world)
    assert (len(dying.requests), len(other.requests)) == (1, 0)


@pytest.mark.parametrize("script", (die, die_after_the_head, answering(502), answering(503), answering(504)))
@pytest.mark.parametrize("body", (ASK, STREAM))
async def test_before_the_first_byte_another_replica_answers(
    world: Any, script: Script, body: dict[str, Any]
) -> None:
    failing, other = [await world.add_engine(f"r-{letter * 10}") for letter in "ab"]
    failing.script = script
    answer = await world.post(body)
    assert answer.status_code == 200
    assert answer.headers["x-llmgw-replica"] == other.replica
    assert (len(failing.requests), len(other.requests)) == (1, 1)
    (row,) = await world.rows(1)
    assert (row.replica, row.outcome) == (other.replica, "ok")


async def test_a_third_replica_is_not_tried(world: Any) -> None:
    engines = [await world.add_engine(f"r-{letter * 10}") for letter in "abc"]
    for engine in engines:
        engine.script = answering(503)
    answer = await world.post(ASK)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_unavailable")
    assert [len(engine.requests) for engine in engines] == [1, 1, 0]
    (row,) = await world.rows(1)
    assert (row.status, row.outcome) == (502, "failed")


@pytest.mark.parametrize("body", (ASK, STREAM))
async def test_the_only_replica_dead_before_the_first_byte_is_502(world: Any, body: dict[str, Any]) -> None:
    engine = await world.add_engine()
    engine.script = die
    answer = await world.post(body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_unavailable")
    assert answer.json()["error"]["type"] == "server_error"
    assert len(engine.requests) == 1


async def test_an_engine_that_nobody_listens_for_is_502(world: Any, unused_port: int) -> None:
    await world.add_engine()
    (replica,) = world.endpoints
    gone = world.endpoints[replica].model_copy(update={"url": f"http://127.0.0.1:{unused_port}"})
    world.endpoints[replica] = gone
    world.publish()
    answer = await world.post(ASK)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_unavailable")


async def test_an_idle_connection_that_the_engine_closed_is_no_failure(world: Any) -> None:
    """The engine cuts each connection at its second request, as a timeout in the wrong moment does."""
    engine = await world.add_engine()
    behave = engine.script

    async def cut_the_second(engine: Any, connection: Any, request: Any) -> None:
        if connection.requests > 1:
            await connection.cut()
        else:
            await behave(engine, connection, request)

    engine.script = cut_the_second
    statuses = [(await world.post(ASK)).status_code for _ in range(3)]
    assert statuses == [200, 200, 200]
    assert engine.connections >= 2


@pytest.mark.parametrize(
    ("script", "body"),
    (
        (answering(200, b'{"choices":[{"mess'), ASK),
        (answering(200, b"<html>", "text/html"), ASK),
        (answering(200, b"[]"), ASK),
        (answering(200, b'{"choices":[]}'), STREAM),
    ),
)
async def test_an_answer_that_is_none_is_502(world: Any, script: Script, body: dict[str, Any]) -> None:
    engine = await world.add_engine()
    engine.script = script
    answer = await world.post(body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_invalid_response")


async def test_a_refusal_of_the_engine_goes_to_the_client_untouched(world: Any) -> None:
    first, second = [await world.add_engine(f"r-{letter * 10}") for letter in "ab"]
    refusal = b'{"error": {"message": "too long",  "code": "context_length_exceeded"}}'
    first.script = second.script = answering(400, refusal)
    answer = await world.post(STREAM)
    assert (answer.status_code, answer.content) == (400, refusal)
    assert len(first.requests) + len(second.requests) == 1
    (row,) = await world.rows(1)
    assert (row.status, row.outcome) == (400, "refused")


async def test_a_refusal_in_another_form_becomes_one_in_openais(world: Any) -> None:
    engine = await world.add_engine()
    engine.script = answering(422, b"Traceback: secret", "text/plain")
    answer = await world.post(ASK)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "refused_by_engine")
    assert b"secret" not in answer.content


@pytest.mark.parametrize(
    ("status", "answered", "code"),
    ((500, 502, "upstream_error"), (401, 502, "upstream_unavailable"), (501, 400, "not_supported")),
)
async def test_what_the_engine_says_of_itself_stays_inside(
    world: Any, status: int, answered: int, code: str
) -> None:
    """401 most of all: a client would take it for a word about its own key."""
    engine = await world.add_engine()
    engine.script = answering(status, b'{"error":{"message":"secret"}}')
    answer = await world.post(ASK)
    assert (answer.status_code, answer.json()["error"]["code"]) == (answered, code)
    assert b"secret" not in answer.content


async def test_an_engine_that_does_not_begin_in_time_is_504(world: Any) -> None:
    world.add_model("tiny", timeouts=RequestTimeouts(first_byte=0.2))
    engine = await world.add_engine()
    engine.script = lambda engine, connection, _: engine.until_aborted(connection)
    answer = await world.post(STREAM)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")
    await engine.aborted.wait()


async def test_an_answer_in_one_piece_is_limited_in_all(world: Any) -> None:
    world.add_model("tiny", timeouts=RequestTimeouts(first_byte=0.1, total=0.3))
    engine = await world.add_engine()
    engine.script = lambda engine, connection, _: engine.until_aborted(connection)
    answer = await world.post(ASK)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")
    await engine.aborted.wait()


@pytest.mark.parametrize("limits_of", (RequestTimeouts(between_chunks=0.2), RequestTimeouts(total=0.5)))
async def test_a_stream_that_stops_is_broken_off(world: Any, limits_of: RequestTimeouts) -> None:
    world.add_model("tiny", timeouts=limits_of)
    engine = await world.add_engine()
    engine.gate = anyio.Event()
    (error,) = error_events(await broken_stream(world))
    assert error["code"] == "upstream_timeout"
    assert not world.state.in_flight


@pytest.mark.parametrize("body", (ASK, STREAM))
async def test_a_client_that_goes_away_before_the_first_byte_frees_the_engine(
    world: Any, body: dict[str, Any]
) -> None:
    engine = await world.add_engine()
    engine.script = lambda engine, connection, _: engine.until_aborted(connection)
    async with anyio.create_task_group() as group:
        group.start_soon(world.post, body)
        while not engine.requests:
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    await engine.aborted.wait()
    await world.idle()
    (row,) = await world.rows(1)
    assert (row.status, row.outcome, row.completion_tokens) == (499, "cancelled", None)


async def test_a_client_that_goes_away_in_a_stream_frees_the_engine(world: Any) -> None:
    engine = await world.add_engine()

    async def one_event(engine: Any, connection: Any, _: Any) -> None:
        await connection.begin_events()
        await connection.event({"choices": [{"delta": {"content": "Hel"}, "finish_reason": None}]})
        await engine.until_aborted(connection)

    engine.script = one_event
    async with world.client() as client, client.stream("POST", PATH, json=STREAM) as response:
        chunks = response.aiter_bytes()
        await anext(chunks)
        await response.aclose()
        await chunks.aclose()
    await engine.aborted.wait()
    await world.idle()
    (row,) = await world.rows(1)
    assert row.outcome == "cancelled"


async def test_a_client_that_closes_right_after_the_end_has_got_everything(world: Any) -> None:
    engine = await world.add_engine()

    async def whole_but_open(engine: Any, connection: Any, _: Any) -> None:
        await connection.begin_events()
        await connection.event({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]})
        await connection.chunk(b"data: [DONE]\n\n")
        await engine.until_aborted(connection)

    engine.script = whole_but_open
    async with world.client() as client, client.stream("POST", PATH, json=STREAM) as response:
        chunks = response.aiter_bytes()
        received = b""
        while b"[DONE]" not in received:
            received += await anext(chunks)
        await response.aclose()
        await chunks.aclose()
    await world.idle()
    (row,) = await world.rows(1)
    assert (row.status, row.outcome) == (200, "ok")


async def test_a_gateway_that_cuts_its_streams_says_so(world: Any) -> None:
    engine = await world.add_engine()
    engine.gate = anyio.Event()
    (error,) = error_events(await broken_stream(world, each=world.state.cut_all))
    assert error["code"] == "gateway_stopping"
    (row,) = await world.rows(1)
    assert row.outcome == "partial"


async def test_a_stream_whose_engine_does_not_close_after_done_ends_for_the_client(world: Any) -> None:
    engine = await world.add_engine()

    async def keep_open(engine: Any, connection: Any, _: Any) -> None:
        await connection.begin_events()
        await connection.event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        await connection.chunk(b"data: [DONE]\n\n")
        await engine.until_aborted(connection)

    engine.script = keep_open
    answer = await world.post(STREAM)
    assert answer.content.endswith(b"data: [DONE]\n\n")
    await engine.aborted.wait()
    (row,) = await world.rows(1)
    assert row.outcome == "ok"


async def test_a_client_that_stops_reading_cannot_hold_a_replica_for_ever(world: Any) -> None:
    world.add_model("tiny", timeouts=RequestTimeouts(total=0.5))
    engine = await world.add_engine()

    async def flood(_: Any, connection: Any, __: Any) -> None:
        await connection.begin_events()
        while True:
            await connection.event({"choices": [{"delta": {"content": "x" * 65536}}]})

    engine.script = flood
    body = json.dumps(STREAM)
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    port = int(world.base.rpartition(":")[2])
    async with await anyio.connect_tcp("127.0.0.1", port) as never_read:
        await never_read.send((head + body).encode())
        (row,) = await world.rows(1)
        assert row.outcome == "partial"
        await world.idle()
