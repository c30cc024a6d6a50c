"""A control plane in a simulated world, and raw streams to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from llmgw_core.catalog.dry_run import commands_by_hook
from llmgw_core.control.app import ControlPlane
from llmgw_core.plugins import PluginHost
from llmgw_core.ports import Stream
from llmgw_core.simulate import engine
from llmgw_core.simulate.virtual_time import run
from llmgw_core.simulate.world import World
from llmgw_core.spec import NO_EPOCH, Register, Value, decode, decode_gateway, encode
from llmgw_core.testing.samples import report
from llmgw_core.timers import FAST

AGENTS = "ws://control/agent/v1/stream"
GATEWAYS = "ws://control/internal/v1/gateway"
CATALOG = """\
version: 1
models:
  small:
    source: /models/small
    profiles: [{name: cpu, engine: simulated, cpus: 1}]
"""


class Text:
    """A catalog that a test edits."""

    name = "catalog.yaml"

    def __init__(self) -> None:
        self.text = CATALOG

    async def read(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        return self.text.encode()


@dataclass
class Rig:
    """A control plane that leads."""

    world: World
    control: ControlPlane
    catalog: Text

    @asynccontextmanager
    async def agent(self, **fields: Any) -> AsyncIterator[Peer]:
        """A stream on which a node has registered."""
        async with self.world.network.open("agent", AGENTS) as stream:
            await stream.send(encode(register(**fields)))
            yield Peer(stream)

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[Peer]:
        """A stream on which nothing was said yet."""
        async with self.world.network.open("gateway", GATEWAYS) as stream:
            yield Peer(stream)


@dataclass
class Peer:
    """The other end of a stream."""

    stream: Stream

    async def send(self, message: Value) -> None:
        await self.stream.send(encode(message))

    async def expect(self, kind: type[Any], *, gateway: bool = False) -> Any:
        """The next message of that type; others are passed over."""
        with anyio.fail_after(60):
            while True:
                text = await self.stream.receive()
                message = decode_gateway(text) if gateway else decode(text)
                if isinstance(message, kind):
                    return message


def register(**fields: Any) -> Register:
    """A first message of node n1."""
    base: dict[str, Any] = {
        "node": "n1",
        "instance": "i1",
        "agent_version": "1",
        "boot": "b1",
        "heard": NO_EPOCH,
        "applied": None,
        "seq": 1,
        "report": report(fields.get("node", "n1"), engines=(), cpus=4),
    }
    return Register.model_validate(base | fields)


async def _rig(tasks: TaskGroup) -> Rig:
    world = World(1, tasks)
    plugins, catalog = PluginHost.of(engine), Text()
    control = ControlPlane(
        world.store,
        await world.store.facts(),
        engines=plugins.engines,
        plugins=None,
        commands=commands_by_hook(plugins.call_one),
        catalog=catalog,
        clock=world.clock,
        rand=world.rand("control"),
        timers=FAST,
    )
    await tasks.start(control.run)
    world.network.servers[AGENTS] = control.agents.serve
    world.network.servers[GATEWAYS] = control.gateways.serve
    return Rig(world, control, catalog)


@pytest.fixture
def simulated() -> Callable[[Callable[[Rig], Awaitable[None]]], None]:
    """Runs a test with a Rig in virtual time."""

    def play(test: Callable[[Rig], Awaitable[None]]) -> None:
        async def main() -> None:
            async with anyio.create_task_group() as tasks:
                await test(await _rig(tasks))
                tasks.cancel_scope.cancel()

        run(main)

    return play
