"""A gateway on a real socket, engines that misbehave on command, and a control plane made of queues."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from anyio.abc import Listener, SocketStream, TaskGroup
from llmgw_core.config import GatewayLimits
from llmgw_core.credentials import api_key, key_hash
from llmgw_core.gateway.accounting import Journal
from llmgw_core.gateway.app import MODEL_PATHS, Gateway, build_app
from llmgw_core.gateway.proxy import Proxy
from llmgw_core.gateway.state import GatewayState
from llmgw_core.gateway.upstream import Httpx2Upstream
from llmgw_core.spec import ApiKey, Endpoint, Epoch, Keys, ModelEntry, Secrets, Table, UsageRow
from llmgw_core.system import SystemClock, SystemRand
from pydantic import SecretStr

PEPPER = b"p" * 32
ENGINE_SECRET = b"e" * 32
KEY = api_key("0123456789abcdef0123456789abcdef")
DEADLINE = 90.0


@dataclass
class Request:
    """What reached an engine."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Script = Callable[["FakeEngine", "Connection", Request], Awaitable[None]]


class Connection:
    """One connection to an engine, with the few words of HTTP that a script needs."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self.requests = 0

    async def read(self) -> Request | None:
        """The next request; None when the client has closed."""
        data = b""
        while b"\r\n\r\n" not in data:
            try:
                data += await self.stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return None
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(body) < int(headers.get("content-length", "0")):
            body += await self.stream.receive()
        self.requests += 1
        return Request(first.split(" ")[1], headers, body)

    async def head(self, status: int, content_type: str, *fields: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"content-type: {content_type}", *fields]
        await self.stream.send("\r\n".join([*lines, "", ""]).encode())

    async def whole(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        await self.head(status, content_type, f"content-length: {len(body)}")
        await self.stream.send(body)

    async def begin_events(self) -> None:
        await self.head(200, "text/event-stream", "transfer-encoding: chunked", "set-cookie: engine=1")

    async def chunk(self, data: bytes) -> None:
        await self.stream.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def event(self, data: object) -> None:
        await self.chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

    async def cut(self) -> None:
        """Close without a last chunk: what a killed engine looks like."""
        await self.stream.aclose()


def delta(text: str, finish: str | None = None) -> dict[str, Any]:
    """A chunk of a chat completion."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}


USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


async def answer(engine: FakeEngine, connection: Connection, request: Request) -> None:
    """Behave: stream or not, as asked."""
    if not request.json.get("stream"):
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi"},
            "text": "Hi",
            "finish_reason": "stop",
        }
        body = {"id": "c", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [choice]}
        await connection.whole(200, json.dumps({**body, "usage": USAGE}).encode())
        return
    await connection.begin_events()
    await connection.event(delta("Hel"))
    await engine.gate.wait()
    await connection.event(delta("lo", "stop"))
    await connection.event({**delta(""), "choices": [], "usage": USAGE})
    await connection.chunk(b"data: [DONE]\n\n")
    await connection.chunk(b"")


class FakeEngine:
    """A scripted engine; `script` may be changed at any time. Its streams wait for `gate` in the middle."""

    def __init__(self, replica: str, port: int) -> None:
        self.replica = replica
        self.url = f"http://127.0.0.1:{port}"
        self.script: Script = answer
        self.gate = anyio.Event()
        self.gate.set()
        self.requests: list[Request] = []
        self.connections = 0
        self.aborted = anyio.Event()
        """A client closed its connection while a script was waiting for that (`until_aborted`)."""

    async def run(self, listener: Listener[SocketStream]) -> None:
        async with listener:
            await listener.serve(self.serve)

    async def serve(self, stream: SocketStream) -> None:
        connection = Connection(stream)
        self.connections += 1
        async with stream:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                while (request := await connection.read()) is not None:
                    self.requests.append(request)
                    await self.script(self, connection, request)

    async def until_aborted(self, connection: Connection) -> None:
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            await connection.stream.receive()
        self.aborted.set()


class MovableClock(SystemClock):
    """The real clock, which a test may put forward."""

    def __init__(self) -> None:
        self.forward = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.forward


class QuietServer(uvicorn.Server):
    """Leaves the signals of the test process alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass
class World:
    """A gateway, its engines, and hands on everything that a control plane would send."""

    tasks: TaskGroup
    state: GatewayState
    journal: Journal
    clock: MovableClock
    base: str
    server: uvicorn.Server
    models: dict[str, ModelEntry] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    version: int = 0

    def publish(self) -> None:
        """Send the table as it is now."""
        self.version += 1
        self.state.take_table(
            Table(
                epoch=Epoch(number=1, control="c"),
                version=self.version,
                complete=True,
                models=tuple(self.models.values()),
                endpoints=tuple(self.endpoints.values()),
            )
        )

    def add_model(self, name: str, **fields: Any) -> None:
        self.models[name] = ModelEntry(name=name, **fields)
        self.publish()

    async def add_engine(
        self, replica: str = "r-aaaaaaaaaa", model: str = "tiny", **fields: Any
    ) -> FakeEngine:
        """Start an engine and route to it."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
        engine = FakeEngine(replica, listener.extra(anyio.abc.SocketAttribute.local_port))  # noqa: S610
        self.tasks.start_soon(engine.run, listener)
        self.models.setdefault(model, ModelEntry(name=model, aliases=(f"{model}-alias",)))
        endpoint = {"paths": MODEL_PATHS, "key_version": 1, **fields}
        self.endpoints[replica] = Endpoint(
            replica=replica, model=model, url=engine.url, engine="fake", **endpoint
        )
        self.publish()
        return engine

    def add_key(self, key: str, **fields: Any) -> None:
        known = ApiKey(id=fields.pop("id", key[-4:]), hash=key_hash(PEPPER, key), **fields)
        self.state.take_keys(Keys(seq=1, full=False, changed=(known,)), self.clock.monotonic())

    def client(self, key: str | None = KEY) -> httpx2.AsyncClient:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return httpx2.AsyncClient(base_url=self.base, headers=headers, timeout=DEADLINE)

    async def post(
        self, body: object, *, path: str = MODEL_PATHS[0], key: str | None = KEY
    ) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.client(key) as client:
            return await client.post(path, content=content, headers={"content-type": "application/json"})

    async def rows(self, count: int) -> list[UsageRow]:
        """The usage rows in the journal, once there are `count`."""
        found: list[UsageRow] = []
        while len(found) < count:
            batch = self.journal.lend()
            if batch is not None:
                found.extend(batch.rows)
            await anyio.sleep(0.01)
        return found

    async def idle(self) -> None:
        """Return when the gateway counts no request as working."""
        while self.state.in_flight:
            await anyio.sleep(0.01)


@asynccontextmanager
async def gateway_world(spool: Path, limits: GatewayLimits) -> AsyncIterator[World]:
    clock, rand, state = MovableClock(), SystemRand(), GatewayState()
    journal = Journal(spool, clock, rand)
    upstream = Httpx2Upstream(limits.connect_timeout)
    app = build_app(Gateway(state, Proxy(state, upstream, journal), clock, rand, limits))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, lifespan="off", ws="none", log_config=None, timeout_graceful_shutdown=5)
        server = QuietServer(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            base = f"http://127.0.0.1:{listener.getsockname()[1]}"
            yield World(tasks, state, journal, clock, base, server)
            state.cut_all()
            server.should_exit = True
            while server.server_state.tasks:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        await upstream.aclose()
        journal.close()


@pytest.fixture
def limits() -> GatewayLimits:
    return GatewayLimits(max_body=64 * 1024)


@pytest.fixture
async def bare_world(anyio_backend: str, tmp_path: Path, limits: GatewayLimits) -> AsyncIterator[World]:
    """A gateway that has heard nothing from any control plane."""
    with anyio.fail_after(DEADLINE):
        async with gateway_world(tmp_path / "spool", limits) as world:
            yield world


@pytest.fixture
async def world(bare_world: World) -> World:
    """A gateway with secrets, one key (`KEY`) and an empty table."""
    secrets = Secrets(engine_keys={1: SecretStr(ENGINE_SECRET.hex())}, pepper=SecretStr(PEPPER.hex()))
    bare_world.state.take_secrets(secrets)
    bare_world.add_key(KEY, id="k1", tenant="blue")
    bare_world.publish()
    return bare_world


@pytest.fixture
def unused_port() -> int:
    """A port where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
