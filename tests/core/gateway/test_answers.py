"""What a client gets when all is well, by plain HTTP and by OpenAI's own client."""

from __future__ import annotations

import json
from typing import Any

import anyio
import openai
import pytest
from llmgw_core.spec import engine_key

pytestmark = pytest.mark.anyio
KEY = "llmgw-0123456789abcdef0123456789abcdef"
ASK: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]}


def official(world: Any, **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{world.base}/v1", api_key=KEY, max_retries=0, **options)


async def test_a_chat_completion_names_its_request_model_and_replica(world: Any) -> None:
    engine = await world.add_engine()
    answer = await world.post(ASK)
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == "Hi"
    assert answer.headers["x-llmgw-model"] == "tiny"
    assert answer.headers["x-llmgw-replica"] == engine.replica
    assert answer.headers["x-request-id"] == engine.requests[0].headers["x-request-id"]


async def test_the_body_reaches_the_engine_byte_for_byte(world: Any) -> None:
    engine = await world.add_engine()
    body = b'{ "model" : "tiny", "seed": 12345678901234567890123, "temperature": 1.00, "messages":[] }'
    assert (await world.post(body)).status_code == 200
    assert engine.requests[0].body == body


async def test_an_alias_is_replaced_in_place_and_nothing_else_changes(world: Any) -> None:
    engine = await world.add_engine()
    body = b'{"x":{"model":"inner"},"s":"say \\"model\\":\\"no\\"","model":"tiny-alias","n": 1.00}'
    answer = await world.post(body)
    assert engine.requests[0].body == body.replace(b'"tiny-alias"', b'"tiny"')
    assert answer.headers["x-llmgw-model"] == "tiny"
    (row,) = await world.rows(1)
    assert (row.model_asked, row.model) == ("tiny-alias", "tiny")


async def test_the_engine_gets_its_own_key_and_nothing_of_the_client(world: Any) -> None:
    engine = await world.add_engine()
    async with world.client() as client:
        headers = {"cookie": "a=b", "x-secret": "s", "x-forwarded-for": "1.2.3.4", "accept-encoding": "gzip"}
        await client.post("/v1/chat/completions?token=1", json=ASK, headers=headers)
    (request,) = engine.requests
    expected = engine_key(b"e" * 32, 1, engine.replica)
    assert request.headers["authorization"] == f"Bearer {expected}"
    assert request.path == "/v1/chat/completions"
    assert set(request.headers) == {
        "accept", "authorization", "content-length", "content-type", "host", "user-agent", "x-request-id",
    }  # fmt: skip


async def test_an_engine_started_without_a_key_is_sent_none(world: Any) -> None:
    engine = await world.add_engine(key_version=0)
    assert (await world.post(ASK)).status_code == 200
    assert "authorization" not in engine.requests[0].headers


async def test_nothing_of_the_engines_headers_reaches_the_client(world: Any) -> None:
    await world.add_engine()
    answer = await world.post({**ASK, "stream": True})
    assert "set-cookie" not in answer.headers
    assert answer.headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize("path", ("/v1/chat/completions", "/v1/completions", "/v1/embeddings"))
async def test_every_model_path_reaches_the_engine(world: Any, path: str) -> None:
    engine = await world.add_engine()
    assert (await world.post({"model": "tiny"}, path=path)).status_code == 200
    assert engine.requests[0].path == path


async def test_the_official_client_chats(world: Any) -> None:
    await world.add_engine()
    async with official(world) as client:
        answer = await client.chat.completions.create(**ASK)
    assert answer.choices[0].message.content == "Hi"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 7


async def test_the_official_client_streams(world: Any) -> None:
    await world.add_engine()
    async with official(world) as client:
        stream = await client.chat.completions.create(**ASK, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert text == "Hello"


async def test_the_official_client_lists_the_models(world: Any) -> None:
    await world.add_engine()
    world.add_model("later", context_length=4096, state="placing")
    async with official(world) as client:
        models = {model.id: model for model in (await client.models.list()).data}
        later = await client.models.retrieve("later")
    assert sorted(models) == ["later", "tiny"]
    assert models["tiny"].ready  # type: ignore[attr-defined]
    assert not later.ready  # type: ignore[attr-defined]
    assert later.context_length == 4096  # type: ignore[attr-defined]


async def test_a_stream_is_not_held_back(world: Any) -> None:
    """The first event arrives while the engine has not yet made the second one."""
    engine = await world.add_engine()
    engine.gate = anyio.Event()
    async with official(world) as client:
        stream = await client.chat.completions.create(**ASK, stream=True)
        first = await anext(aiter(stream))
        assert first.choices[0].delta.content == "Hel"
        engine.gate.set()
        rest = [chunk async for chunk in stream]
    assert rest[0].choices[0].finish_reason == "stop"


async def test_a_stream_passes_byte_for_byte(world: Any) -> None:
    engine = await world.add_engine()
    sent = b': hello\r\n\r\nevent: x\ndata: {"choices":[{"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

    async def bytewise(_: Any, connection: Any, __: Any) -> None:
        await connection.begin_events()
        for position in range(len(sent)):
            await connection.chunk(sent[position : position + 1])
        await connection.chunk(b"")

    engine.script = bytewise
    assert (await world.post({**ASK, "stream": True})).content == sent


async def test_usage_is_what_the_engine_said(world: Any) -> None:
    engine = await world.add_engine()
    await world.post(ASK)
    await world.post({**ASK, "stream": True})
    rows = await world.rows(2)
    assert [(row.prompt_tokens, row.completion_tokens, row.streamed) for row in rows] == [
        (5, 2, False),
        (5, 2, True),
    ]
    for row in rows:
        assert (row.key, row.tenant, row.replica) == ("k1", "blue", engine.replica)
        assert (row.status, row.outcome, row.path) == (200, "ok", "/v1/chat/completions")
        assert row.ttft is not None
        assert 0 <= row.ttft <= row.duration


async def test_tokens_that_the_engine_did_not_report_are_unknown_and_not_zero(world: Any) -> None:
    engine = await world.add_engine()

    async def silent(_: Any, connection: Any, __: Any) -> None:
        await connection.whole(200, json.dumps({"choices": []}).encode())

    engine.script = silent
    await world.post(ASK)
    (row,) = await world.rows(1)
    assert (row.prompt_tokens, row.completion_tokens, row.outcome) == (None, None, "ok")


async def test_requests_go_to_the_replica_with_fewer_of_them(world: Any) -> None:
    first, second = [await world.add_engine(f"r-{letter * 10}") for letter in "ab"]
    first.gate = anyio.Event()
    async with (
        world.client() as client,
        client.stream("POST", "/v1/chat/completions", json={**ASK, "stream": True}) as held,
    ):
        assert held.headers["x-llmgw-replica"] == first.replica
        assert (await world.post(ASK)).headers["x-llmgw-replica"] == second.replica
        first.gate.set()
        await held.aread()
    await world.idle()
    assert (await world.post(ASK)).headers["x-llmgw-replica"] == first.replica
