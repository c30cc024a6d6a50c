"""The daemons' HTTP server on a loopback socket, and clients that write HTTP by hand."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from llmgw_core.http_limits import HttpLimits
from llmgw_core.serving import HttpServer
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

DEADLINE = 60.0


@dataclass
class Site:
    """What is served: echoes of bodies and of a WebSocket; what is `late`, and a stream, wait for `gate`."""

    gate: anyio.Event = field(default_factory=anyio.Event)
    broken_off: anyio.Event = field(default_factory=anyio.Event)
    """An application was told that its client has gone."""
    streaming: anyio.Event = field(default_factory=anyio.Event)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/echo", self.echo, methods=["GET", "POST"]),
                Route("/late", self.late, methods=["POST"]),
                Route("/stream", self.stream),
                WebSocketRoute("/socket", self.socket),
            ]
        )

    async def echo(self, request: Request) -> Response:
        try:
            body = await request.body()
        except ClientDisconnect:
            self.broken_off.set()
            return Response()
        mark = request.query_params.get("n", "")
        return JSONResponse(
            {"size": len(body), "n": mark, "fields": [name for name, _ in request.headers.items()]}
        )

    async def late(self, request: Request) -> Response:
        await self.gate.wait()
        return await self.echo(request)

    async def stream(self, _: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            yield b"first "
            self.streaming.set()
            try:
                await self.gate.wait()
            except anyio.get_cancelled_exc_class():
                self.broken_off.set()
                raise
            yield b"last"

        return StreamingResponse(parts())

    async def socket(self, websocket: WebSocket) -> None:
        await websocket.accept()
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                await websocket.send_text(await websocket.receive_text())


@dataclass
class Answer:
    """One answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        """Status and code."""
        return self.status, self.json["error"]["code"]


class Client:
    """A connection that sends what it is told, bytes for bytes."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self._rest = b""

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            await self.stream.send(part)

    async def answer(self) -> Answer:
        """The next answer; its length is declared or chunked."""
        head = (await self._until(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = b""
        if "content-length" in headers:
            body = await self._take(int(headers["content-length"]))
        elif headers.get("transfer-encoding") == "chunked":
            while size := int(await self._until(b"\r\n"), 16):
                body += (await self._take(size + 2))[:-2]
            await self._take(2)
        return Answer(int(first.split(" ")[1]), headers, body)

    async def closed(self) -> bytes:
        """Wait until the server has closed; what it sent before."""
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                self._rest += await self.stream.receive()
        return self._rest

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._rest += await self.stream.receive()
        return await self._take(self._rest.index(mark) + len(mark))

    async def _take(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._rest += await self.stream.receive()
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


@dataclass
class Served:
    """A server that runs."""

    site: Site
    port: int
    server: HttpServer

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        stream = await anyio.connect_tcp("127.0.0.1", self.port)
        async with stream:
            yield Client(stream)

    async def ask(self, *parts: bytes) -> Answer:
        """Send this on a connection of its own; the first answer."""
        async with self.client() as client:
            await client.send(*parts)
            return await client.answer()


Trickle = Callable[[Client, bytes], Coroutine[Any, Any, None]]
Serve = Callable[..., AbstractAsyncContextManager[Served]]


@asynccontextmanager
async def serving(limits: HttpLimits | None = None, **options: Any) -> AsyncIterator[Served]:
    site = Site()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = HttpServer(site.app(), websockets=True, limits=limits, **options)
        with anyio.fail_after(DEADLINE):
            async with anyio.create_task_group() as tasks:
                await tasks.start(server.run_on, listening)
                yield Served(site, listening.getsockname()[1], server)
                site.gate.set()
                server.abort()


@pytest.fixture(params=(False, True), ids=("asyncio", "uvloop"))
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The gateway runs on uvloop, the control plane does not; transports differ in how they close."""
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
def serve() -> Serve:
    """`async with serve(limits, ...) as served:` runs the site."""
    return serving


@pytest.fixture
def trickle() -> Trickle:
    """Sends the same bytes again and again, until the server has closed."""

    async def send(client: Client, drop: bytes) -> None:
        while True:
            try:
                await client.send(drop)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
            await anyio.sleep(0.01)

    return send
