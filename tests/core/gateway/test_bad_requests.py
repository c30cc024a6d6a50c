"""Bad input: the status, the stable code, and that nothing of it reaches an engine or a log."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import httpx2
import openai
import pytest

pytestmark = pytest.mark.anyio
PATH = "/v1/chat/completions"
KEY = "llmgw-0123456789abcdef0123456789abcdef"
OTHER = "llmgw-ffffffffffffffffffffffffffffffff"
ASK: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "canary-prompt"}]}
DEEP = 65


def code(answer: httpx2.Response) -> str:
    """The code of an error, whose form is checked on the way."""
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"].startswith("req-")
    return str(error["code"])


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    (
        (b"", 400, "invalid_json"),
        (b'{"model":"tiny",}', 400, "invalid_json"),
        (b'{"model":"tiny"} x', 400, "invalid_json"),
        (b'{"model":"tiny","n":NaN}', 400, "invalid_json"),
        (b"[1]", 400, "invalid_type"),
        (b'"tiny"', 400, "invalid_type"),
        (b"[" * 100_000, 413, "request_too_large"),
        (b"{", 400, "invalid_json"),
        (b'{"model": "tiny", "messages": [', 400, "invalid_json"),
        (b"]", 400, "invalid_json"),
        (b"[" * 10_000, 400, "json_too_deep"),
        (b"[" * 10_000 + b"]" * 10_000, 400, "json_too_deep"),
        (b'{"model":"tiny","x":' + b"[" * DEEP + b"]" * DEEP + b"}", 400, "json_too_deep"),
        (b'{"model":"tiny","x":"\xff"}', 400, "invalid_encoding"),
        (b'{"messages":[]}', 400, "missing_required_parameter"),
        (b'{"model":5}', 400, "invalid_type"),
        (b'{"model":""}', 400, "invalid_value"),
        (b'{"model":"tiny","model":"tiny"}', 400, "duplicate_key"),
        (b'{"model":"tiny","m\\u006fdel":"other"}', 400, "duplicate_key"),
        (b'{"model":5,"model":"tiny"}', 400, "duplicate_key"),
        (b'{"model":"tiny","stream":"yes"}', 400, "invalid_type"),
        (b'{"model":"nobody"}', 404, "model_not_found"),
        (b'{"model":"../../etc/passwd"}', 404, "model_not_found"),
        (b'{"model":"\\u0000\\n"}', 404, "model_not_found"),
        (json.dumps({"model": "m" * 3000}).encode(), 404, "model_not_found"),
    ),
)
async def test_a_bad_body_is_refused_with_a_stable_code(
    world: Any, body: bytes, status: int, expected: str
) -> None:
    engine = await world.add_engine()
    answer = await world.post(body)
    assert (answer.status_code, code(answer)) == (status, expected)
    assert len(answer.content) < 400
    assert not engine.requests


async def test_depth_is_counted_outside_of_strings(world: Any) -> None:
    await world.add_engine()
    body = {"model": "tiny", "messages": "[" * 1000 + '\\"{', "x": [[[]]], "y": {}}
    assert (await world.post(body)).status_code == 200
    nested = b'{"model":"tiny","x":' + b"[" * (DEEP - 2) + b"]" * (DEEP - 2) + b"}"
    assert (await world.post(nested)).status_code == 200


async def test_a_model_that_is_not_allowed_looks_like_one_that_is_not_there(world: Any) -> None:
    await world.add_engine()
    await world.add_engine("r-bbbbbbbbbb", model="mine")
    world.add_key(OTHER, models=("mine",))
    forbidden = await world.post({"model": "tiny"}, key=OTHER)
    nowhere = await world.post({"model": "tinx"}, key=OTHER)
    assert (forbidden.status_code, code(forbidden)) == (404, "model_not_found")
    assert forbidden.text.replace("tiny", "tinx") == nowhere.text
    assert (await world.post({"model": "mine-alias"}, key=OTHER)).status_code == 200
    async with world.client(OTHER) as client:
        listed = (await client.get("/v1/models")).json()["data"]
        assert [model["id"] for model in listed] == ["mine"]
        assert (await client.get("/v1/models/tiny")).status_code == 404


@pytest.mark.parametrize(
    "headers",
    (
        [],
        [("authorization", "Basic bGxtZ3c6eA==")],
        [("authorization", "Bearer")],
        [("authorization", "Bearer wrong")],
        [("authorization", "Bearer ' OR 1=1 --")],
        [("authorization", f"Bearer {'k' * 10_000}")],
        [("authorization", "Bearer \xe9")],
        [("authorization", f"Bearer {KEY}"), ("authorization", f"Bearer {KEY}")],
        [("authorization", f"Bearer {OTHER}")],
    ),
)
async def test_without_a_key_in_force_nothing_is_answered(world: Any, headers: list[tuple[str, str]]) -> None:
    engine = await world.add_engine()
    async with httpx2.AsyncClient(base_url=world.base) as client:
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        for method, path in (("POST", PATH), ("GET", "/v1/models"), ("GET", "/v1/models/tiny")):
            answer = await client.request(method, f"{path}?api_key={KEY}", headers=encoded, content=b"{")
            assert (answer.status_code, code(answer)) == (401, "invalid_api_key")
            assert answer.headers["www-authenticate"] == "Bearer"
    assert not engine.requests


async def test_the_scheme_is_read_in_any_case(world: Any) -> None:
    await world.add_engine()
    async with httpx2.AsyncClient(base_url=world.base) as client:
        answer = await client.post(PATH, json=ASK, headers={"authorization": f"bearer {KEY}"})
    assert answer.status_code == 200


async def test_a_key_ends_when_it_expires(world: Any) -> None:
    await world.add_engine()
    world.add_key(OTHER, expires_in=1000.0)
    assert (await world.post(ASK, key=OTHER)).status_code == 200
    world.clock.forward = 1001.0
    assert (await world.post(ASK, key=OTHER)).status_code == 401
    assert (await world.post(ASK)).status_code == 200


async def test_before_any_key_has_arrived_clients_are_told_to_wait(bare_world: Any) -> None:
    answer = await bare_world.post(ASK)
    assert (answer.status_code, code(answer)) == (503, "gateway_starting")
    assert int(answer.headers["retry-after"]) >= 1


async def test_a_large_body_is_refused_before_it_is_read(world: Any, limits: Any) -> None:
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
        f"content-type: application/json\r\ncontent-length: {limits.max_body + 1}\r\n\r\n"
    )
    received = b""
    port = int(world.base.rpartition(":")[2])
    async with await anyio.connect_tcp("127.0.0.1", port) as connection:
        await connection.send(head.encode())
        async for data in connection:  # ends because the gateway closes: the body is not wanted
            received += data
    assert received.startswith(b"HTTP/1.1 413 ")
    assert b'"code":"request_too_large"' in received


async def test_a_body_that_grows_too_large_is_refused_on_the_way(world: Any, limits: Any) -> None:
    async def endless() -> Any:
        for _ in range(limits.max_body // 1024 + 1):
            yield b" " * 1024

    async with world.client() as client:
        answer = await client.post(PATH, content=endless(), headers={"content-type": "application/json"})
    assert (answer.status_code, code(answer)) == (413, "request_too_large")


@pytest.mark.parametrize(
    ("headers", "expected"),
    (
        ({"content-type": "text/plain"}, "unsupported_media_type"),
        ({"content-type": "application/x-www-form-urlencoded"}, "unsupported_media_type"),
        ({"content-type": "application/json; charset=latin-1"}, "unsupported_media_type"),
        ({"content-type": "application/json", "content-encoding": "gzip"}, "unsupported_content_encoding"),
    ),
)
async def test_only_plain_json_is_read(world: Any, headers: dict[str, str], expected: str) -> None:
    async with world.client() as client:
        answer = await client.post(PATH, content=json.dumps(ASK), headers=headers)
    assert (answer.status_code, code(answer)) == (415, expected)


@pytest.mark.parametrize("kind", ("application/json; charset=UTF-8", "Application/JSON", None))
async def test_json_is_accepted_however_it_is_spelled(world: Any, kind: str | None) -> None:
    await world.add_engine()
    async with world.client() as client:
        headers = {} if kind is None else {"content-type": kind}
        assert (await client.post(PATH, content=json.dumps(ASK), headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "path",
    (
        "/",
        "/v1",
        "/v1/",
        "/v1/chat/completions/",
        "/v1//chat/completions",
        "/v1/chat%2fcompletions",
        "/v1/%63hat/completions",
        "/V1/chat/completions",
        "/metrics",
        "/slots",
        "/props",
        "/docs",
        "/openapi.json",
        "/v1/load_lora_adapter",
        "/invocations",
    ),
)
async def test_every_other_path_is_404(world: Any, path: str) -> None:
    engine = await world.add_engine()
    async with world.client() as client:
        for method in ("GET", "POST"):
            answer = await client.request(method, path, content=json.dumps(ASK))
            assert (answer.status_code, code(answer)) == (404, "not_found")
    assert not engine.requests


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    (
        ("GET", PATH, "POST"),
        ("PUT", PATH, "POST"),
        ("TRACE", PATH, "POST"),
        ("POST", "/v1/models", "GET, HEAD"),
    ),
)
async def test_a_wrong_method_is_405_and_says_which_is_right(
    world: Any, method: str, path: str, allow: str
) -> None:
    async with world.client() as client:
        answer = await client.request(method, path)
    assert (answer.status_code, code(answer)) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allow


@pytest.mark.parametrize("state", ("loading, 40 %", "no node has a free GPU", "failed: out of memory"))
async def test_a_model_without_a_ready_replica_says_how_it_stands(world: Any, state: str) -> None:
    world.add_model("tiny", state=state, retry_after=7.0)
    answer = await world.post(ASK)
    assert (answer.status_code, code(answer)) == (503, "model_not_ready")
    assert answer.headers["retry-after"] == "7"
    assert state in answer.json()["error"]["message"]
    (row,) = await world.rows(1)
    assert (row.status, row.outcome, row.replica) == (503, "refused", None)


async def test_a_draining_replica_gets_nothing(world: Any) -> None:
    engine = await world.add_engine(state="draining")
    assert (await world.post(ASK)).status_code == 503
    assert not engine.requests


async def test_a_path_that_the_models_engine_does_not_serve_is_404(world: Any) -> None:
    engine = await world.add_engine(paths=("/v1/embeddings",))
    answer = await world.post(ASK)
    assert (answer.status_code, code(answer)) == (404, "not_found")
    assert not engine.requests


async def test_a_replica_whose_key_cannot_be_made_gets_nothing(world: Any) -> None:
    engine = await world.add_engine(key_version=9)
    answer = await world.post(ASK)
    assert (answer.status_code, code(answer)) == (503, "model_not_ready")
    assert not engine.requests


async def test_a_full_replica_is_503_overloaded(world: Any) -> None:
    await world.add_engine(max_inflight=1)
    with world.state.hold("r-aaaaaaaaaa", "another"):
        answer = await world.post(ASK)
    assert (answer.status_code, code(answer)) == (503, "overloaded")
    assert int(answer.headers["retry-after"]) >= 1
    assert (await world.post(ASK)).status_code == 200


async def test_a_clients_request_id_is_never_taken_over(world: Any) -> None:
    engine = await world.add_engine()
    async with world.client() as client:
        answer = await client.post(PATH, json=ASK, headers={"x-request-id": "mine"})
    assert answer.headers.get_list("x-request-id") == [engine.requests[0].headers["x-request-id"]]
    assert answer.headers["x-request-id"] != "mine"


async def test_the_official_client_raises_the_errors_that_it_knows(world: Any) -> None:
    world.add_model("later", state="loading")
    options: dict[str, Any] = {"base_url": f"{world.base}/v1", "max_retries": 0}
    ask: dict[str, Any] = {"messages": ASK["messages"]}
    async with openai.AsyncOpenAI(api_key="wrong", **options) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()
    async with openai.AsyncOpenAI(api_key=KEY, **options) as client:
        with pytest.raises(openai.NotFoundError, match="nobody") as missing:
            await client.chat.completions.create(model="nobody", **ask)
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.InternalServerError, match="loading"):
            await client.chat.completions.create(model="later", **ask)


async def test_neither_keys_nor_prompts_reach_a_log(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    engine = await world.add_engine()

    async def die(_: Any, connection: Any, __: Any) -> None:
        await connection.cut()

    await world.post(ASK)
    await world.post(ASK, key=OTHER)
    await world.post(b'{"model":"canary-prompt', key=KEY)
    engine.script = die
    await world.post(ASK)
    told = caplog.text + "".join(str(vars(record)) for record in caplog.records)
    assert "request failed" in told
    secrets = ("canary-prompt", KEY, OTHER, engine.requests[0].headers["authorization"].split()[1])
    assert [secret for secret in secrets if secret in told] == []


async def test_a_defect_of_the_gateway_is_500_without_its_inside(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: str) -> None:
        raise RuntimeError("inside")

    monkeypatch.setattr(type(world.state.table), "resolve", lambda _, name: broken(name))
    answer = await world.post(ASK)
    assert (answer.status_code, code(answer)) == (500, "internal_error")
    assert "inside" not in answer.text
    assert answer.headers["x-request-id"] in answer.text


async def test_health_needs_no_key_and_readiness_says_why_not(bare_world: Any) -> None:
    async with bare_world.client(None) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        waiting = await client.get("/readyz")
        assert (waiting.status_code, waiting.json()["reason"]) == (503, "waiting for the control plane")


async def test_a_gateway_that_knows_keys_and_table_is_ready_until_it_stops(world: Any) -> None:
    async with world.client(None) as client:
        assert (await client.get("/readyz")).json() == {"ready": True}
        world.state.stopping = True
        assert (await client.get("/readyz")).json() == {"ready": False, "reason": "stopping"}
