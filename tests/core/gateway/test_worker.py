"""The gateway as a process of its own: it starts, serves, drains, and says what stops it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from llmgw_core.credentials import api_key, key_hash
from llmgw_core.net import StarletteStream
from llmgw_core.spec import (
    ApiKey,
    Endpoint,
    Epoch,
    GatewayHello,
    Keys,
    ModelEntry,
    Secrets,
    StreamEnded,
    Table,
    Usage,
    UsageStored,
    Welcome,
    decode_gateway,
    encode,
)
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]
KEY = api_key("0" * 32)
DEADLINE = 90.0
PATH = "/v1/chat/completions"
ASK = {"model": "tiny", "messages": [], "stream": True}


class ControlPlane:
    """A control plane over a real WebSocket: welcomes a gateway and hands it a table with one endpoint."""

    def __init__(self, engine_url: str) -> None:
        self.engine_url = engine_url
        self.tokens: list[str] = []
        self.usage: list[Usage] = []

    async def serve(self, websocket: WebSocket) -> None:
        self.tokens.append(websocket.headers.get("authorization", ""))
        await websocket.accept()
        stream = StarletteStream(websocket)
        try:
            assert isinstance(decode_gateway(await stream.receive()), GatewayHello)
            for message in self._messages():
                await stream.send(encode(message))
            while True:
                message = decode_gateway(await stream.receive())
                if isinstance(message, Usage):
                    self.usage.append(message)
                    await stream.send(encode(UsageStored(batch=message.batch)))
        except StreamEnded:
            return

    def _messages(self) -> tuple[Any, ...]:
        endpoint = Endpoint(replica="r-a", model="tiny", url=self.engine_url, engine="fake", paths=(PATH,))
        return (
            Welcome(cluster="c", control="cp", leader=True, report_every=1.0),
            Secrets(pepper=SecretStr("ab")),
            Keys(seq=1, changed=(ApiKey(id="k", hash=key_hash(b"\xab", KEY)),)),
            Table(
                epoch=Epoch(number=1, control="cp"),
                version=1,
                complete=True,
                models=(ModelEntry(name="tiny"),),
                endpoints=(endpoint,),
            ),
        )


@asynccontextmanager
async def control_plane(engine_url: str, server_class: type[uvicorn.Server]) -> AsyncIterator[Any]:
    plane: Any = ControlPlane(engine_url)
    app = Starlette(routes=[WebSocketRoute("/internal/v1/gateway", plane.serve)])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, lifespan="off", ws="websockets-sansio", log_config=None)
        server = server_class(config)
        plane.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            yield plane
            server.should_exit = True


def configuration(directory: Path, port: int, control: str, **limits: float) -> dict[str, Any]:
    token = directory / "token"
    token.write_text("gateway-token\n")
    return {
        "listen": f"127.0.0.1:{port}",
        "control_planes": [control],
        "token_file": str(token),
        "spool_dir": str(directory / "spool"),
        "limits": limits,
        "log": {"format": "json"},
    }


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[[dict[str, Any] | None], subprocess.Popen[str]]]:
    """Starts gateway processes; what is left of them is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(config: dict[str, Any] | None) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if name != "LLMGW_GATEWAY_JSON"}
        if config is not None:
            environment["LLMGW_GATEWAY_JSON"] = json.dumps(config)
        argv = [sys.executable, "-m", "llmgw_core.gateway.worker"]
        process = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


async def ready(base: str) -> None:
    """Return when the gateway says that it is ready."""
    async with httpx2.AsyncClient(base_url=base) as client:
        while True:
            try:
                if (await client.get("/readyz")).status_code == 200:
                    return
            except httpx2.TransportError:
                pass
            await anyio.sleep(0.05)


async def ended(process: subprocess.Popen[str]) -> int:
    """The exit code of a process, once it has ended."""
    while (code := process.poll()) is None:
        await anyio.sleep(0.05)
    return code


async def refused(base: str) -> None:
    """Return when nobody accepts connections there any more."""
    host, _, port = base.removeprefix("http://").rpartition(":")
    while True:
        try:
            async with await anyio.connect_tcp(host, int(port)):
                pass
        except OSError:
            return
        await anyio.sleep(0.05)


async def test_a_process_serves_and_drains_a_stream_to_its_end(
    world: Any, worker: Any, tmp_path: Path, unused_port: int
) -> None:
    engine = await world.add_engine()
    engine.gate = anyio.Event()
    base = f"http://127.0.0.1:{unused_port}"
    async with control_plane(engine.url, type(world.server)) as plane:
        process = worker(configuration(tmp_path, unused_port, plane.url))
        await ready(base)
        assert plane.tokens == ["Bearer gateway-token"]
        headers = {"authorization": f"Bearer {KEY}"}
        async with (
            httpx2.AsyncClient(base_url=base, headers=headers, timeout=DEADLINE) as client,
            client.stream("POST", PATH, json=ASK) as response,
        ):
            process.send_signal(signal.SIGTERM)
            await refused(base)
            engine.gate.set()
            body = await response.aread()
        assert body.endswith(b"data: [DONE]\n\n")
        assert await ended(process) == 0
    log = process.stderr.read()
    assert "Traceback" not in log
    assert KEY not in log


async def test_usage_of_a_request_reaches_the_control_plane(
    world: Any, worker: Any, tmp_path: Path, unused_port: int
) -> None:
    engine = await world.add_engine()
    base = f"http://127.0.0.1:{unused_port}"
    async with control_plane(engine.url, type(world.server)) as plane:
        process = worker(configuration(tmp_path, unused_port, plane.url))
        await ready(base)
        async with httpx2.AsyncClient(base_url=base, headers={"authorization": f"Bearer {KEY}"}) as client:
            assert (await client.post(PATH, json={**ASK, "stream": False})).status_code == 200
        while not plane.usage:
            await anyio.sleep(0.05)
        assert [(row.key, row.completion_tokens) for row in plane.usage[0].rows] == [("k", 2)]
        while list((tmp_path / "spool").glob("*.usage")):
            await anyio.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert await ended(process) == 0


@pytest.mark.parametrize("second_signal", (True, False))
async def test_a_stream_is_cut_by_a_second_signal_or_when_the_time_to_drain_is_over(
    world: Any, worker: Any, tmp_path: Path, unused_port: int, second_signal: bool
) -> None:
    engine = await world.add_engine()
    engine.gate = anyio.Event()
    base = f"http://127.0.0.1:{unused_port}"
    async with control_plane(engine.url, type(world.server)) as plane:
        patience = DEADLINE * 10 if second_signal else 0.2
        process = worker(configuration(tmp_path, unused_port, plane.url, drain_timeout=patience))
        await ready(base)
        headers = {"authorization": f"Bearer {KEY}"}
        received = bytearray()
        async with (
            httpx2.AsyncClient(base_url=base, headers=headers, timeout=DEADLINE) as client,
            client.stream("POST", PATH, json=ASK) as response,
        ):
            process.send_signal(signal.SIGTERM)
            await refused(base)
            if second_signal:
                process.send_signal(signal.SIGTERM)
            with pytest.raises(httpx2.TransportError):
                await collect(response.aiter_bytes(), received)
        assert await ended(process) == 0
    assert b"[DONE]" not in received
    assert (b"gateway_stopping" in received) is not second_signal
    assert "Traceback" not in process.stderr.read()


async def collect(chunks: AsyncIterator[bytes], into: bytearray) -> None:
    async for chunk in chunks:
        into += chunk


async def test_a_port_in_use_is_one_sentence(worker: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = worker(configuration(tmp_path, port, "http://127.0.0.1:1"))
        assert await ended(process) == 2
    said = process.stderr.read()
    assert said.startswith("llmgw gateway: ")
    assert f"port {port} is in use" in said
    assert len(said.splitlines()) == 1


async def test_a_second_process_on_one_spool_is_told_who_holds_it(
    worker: Any, tmp_path: Path, unused_port: int
) -> None:
    first = worker(configuration(tmp_path, unused_port, "http://127.0.0.1:1"))
    async with httpx2.AsyncClient() as client:
        while True:
            try:
                await client.get(f"http://127.0.0.1:{unused_port}/healthz")
                break
            except httpx2.TransportError:
                await anyio.sleep(0.05)
    second = worker(configuration(tmp_path, 0, "http://127.0.0.1:1"))
    assert await ended(second) == 2
    assert f"pid {first.pid}" in second.stderr.read()


@pytest.mark.parametrize(("change", "named"), (({"listen": "nowhere"}, "listen"), ({"liste": "x"}, "liste")))
async def test_a_wrong_setting_is_named(
    worker: Any, tmp_path: Path, change: dict[str, str], named: str
) -> None:
    process = worker({**configuration(tmp_path, 0, "http://127.0.0.1:1"), **change})
    assert await ended(process) == 2
    assert named in process.stderr.read()


async def test_without_settings_it_says_how_to_start_it(worker: Any) -> None:
    process = worker(None)
    assert await ended(process) == 2
    assert "llmgw gateway --config" in process.stderr.read()
