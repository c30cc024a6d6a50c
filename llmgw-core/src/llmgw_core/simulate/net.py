"""The network of a simulated world: ordered streams with latency, and requests to simulated engines."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup

from llmgw_core.ports import HttpReply, Stream
from llmgw_core.simulate.clock_rand import SimRand
from llmgw_core.simulate.trace import Trace
from llmgw_core.spec import StreamEnded

if TYPE_CHECKING:
    from llmgw_core.simulate.engine import SimEngine
    from llmgw_core.simulate.machine import Machine

Serve = Callable[[Stream], Awaitable[None]]
LATENCY = 0.002
"""Longest time that a message is under way, in seconds."""


@dataclass
class _Pipe:
    """One direction of a stream."""

    rand: SimRand
    messages: deque[tuple[float, str]] = field(default_factory=deque)
    changed: anyio.Event = field(default_factory=anyio.Event)
    closed: bool = False

    def put(self, text: str) -> None:
        last = self.messages[-1][0] if self.messages else 0.0
        self.messages.append((max(last, anyio.current_time() + LATENCY * self.rand.uniform()), text))
        self._tell()

    def close(self) -> None:
        self.closed = True
        self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def get(self) -> str:
        while True:
            if self.messages:
                await anyio.sleep_until(self.messages[0][0])
                return self.messages.popleft()[1]
            if self.closed:
                raise StreamEnded("the other side is gone")
            await self.changed.wait()


@dataclass(frozen=True)
class SimStream:
    """Port Stream: one end of two pipes."""

    name: str
    out: _Pipe
    back: _Pipe
    trace: Trace

    async def send(self, text: str) -> None:
        """Send one message."""
        await anyio.lowlevel.checkpoint()
        if self.out.closed or self.back.closed:
            raise StreamEnded("the stream is closed")
        self.trace.add(self.name, f"sends {json.loads(text).get('type')}")
        self.out.put(text)

    async def receive(self) -> str:
        """The next message."""
        return await self.back.get()

    async def close(self) -> None:
        """End it."""
        self.out.close()


@dataclass
class SimNetwork:
    """Every listening address of the world and every open stream."""

    tasks: TaskGroup
    trace: Trace
    rand: SimRand
    servers: dict[str, Serve] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    """Machines by address."""

    @asynccontextmanager
    async def open(self, name: str, url: str) -> AsyncIterator[SimStream]:
        """A stream to whoever serves `url`. Raises StreamEnded when nobody does."""
        await anyio.sleep(LATENCY * self.rand.uniform())
        serve = self.servers.get(url)
        if serve is None:
            raise StreamEnded("connection refused", where=url)
        up, down = _Pipe(self.rand), _Pipe(self.rand)
        self.trace.add(name, "connects")
        self.tasks.start_soon(self._serve, serve, SimStream(f"server of {name}", down, up, self.trace))
        try:
            yield SimStream(name, up, down, self.trace)
        finally:
            up.close()
            down.close()

    async def _serve(self, serve: Serve, stream: SimStream) -> None:
        await serve(stream)
        await stream.close()


@dataclass
class SimNet:
    """Port Net of one process on one machine."""

    machine: Machine
    network: SimNetwork

    @asynccontextmanager
    async def connect(self, url: str, token: str) -> AsyncIterator[Stream]:
        """Open a stream; the world does not look at tokens."""
        async with self.network.open(self.machine.name, url) as stream:
            yield stream

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: str | None, timeout: float
    ) -> HttpReply:
        """Ask the engine that listens there. Raises OSError when none does."""
        await anyio.sleep(LATENCY * self.network.rand.uniform())
        target = urlsplit(url)
        engine = self._engine(target.hostname or "", target.port or 0)
        if engine is None:
            raise ConnectionRefusedError(f"{url}: connection refused")
        return engine.answer(target.path, {name.lower(): value for name, value in headers.items()})

    async def listening(self, host: str, port: int) -> bool:
        """Whether an engine has this port."""
        await anyio.lowlevel.checkpoint()
        return self._engine(host, port) is not None

    async def can_bind(self, host: str, port: int) -> bool:
        """Whether no engine of this machine has this port."""
        return not await self.listening(host, port)

    def _engine(self, host: str, port: int) -> SimEngine | None:
        machine = self.network.machines.get(host)
        return machine.engine_at(port) if machine else None
