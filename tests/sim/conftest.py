"""The real control plane and the real agents of some machines, in a simulated world."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup, TaskStatus
from llmgw_agent.daemon import Agent
from llmgw_core.catalog.dry_run import commands_by_hook
from llmgw_core.config import AgentConfig
from llmgw_core.control.app import ControlPlane
from llmgw_core.plugins import PluginHost
from llmgw_core.simulate import engine
from llmgw_core.simulate.machine import SimDisk, SimHost
from llmgw_core.simulate.world import World
from llmgw_core.spec import NodeReport
from llmgw_core.timers import FAST

URL = "http://control:8081"
STREAM = "ws://control:8081/agent/v1/stream"


class Text:
    """A catalog that the test edits."""

    name = "catalog.yaml"

    def __init__(self, text: str) -> None:
        self.text = text

    async def read(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        return self.text.encode()


class Cluster:
    """A control plane and machines `n1`, `n2`, …, each of which may have an agent."""

    def __init__(self, world: World, tasks: TaskGroup, catalog: str, machines: int = 1) -> None:
        self.world, self._tasks, self.catalog = world, tasks, Text(catalog)
        addresses = {f"n{number}": f"10.0.0.{number}" for number in range(1, machines + 1)}
        self.machines = {name: world.machine(name, address) for name, address in addresses.items()}
        for machine in self.machines.values():
            machine.files["/state/token"] = b"agent-token\n"
        self.plugins = PluginHost.of(engine)
        self._agents: dict[str, anyio.CancelScope] = {}
        self._lives = dict.fromkeys(self.machines, 0)

    async def start_control(self) -> ControlPlane:
        control = ControlPlane(
            self.world.store,
            await self.world.store.facts(),
            engines=self.plugins.engines,
            plugins=None,
            commands=commands_by_hook(self.plugins.call_one),
            catalog=self.catalog,
            clock=self.world.clock,
            rand=self.world.rand("control"),
            timers=FAST,
        )
        await self._tasks.start(control.run)
        self.world.network.servers[STREAM] = control.agents.serve
        return control

    async def start_agents(self) -> None:
        for name in self.machines:
            self._lives[name] += 1
            self._agents[name] = await self._tasks.start(self._run_agent, name)

    async def _run_agent(self, name: str, *, task_status: TaskStatus[anyio.CancelScope]) -> None:
        machine = self.machines[name]
        ports = self.world.agent_ports(machine, self._lives[name])
        config = AgentConfig(
            control_planes=(URL,),
            token_file=Path("/state/token"),
            node=name,
            address=machine.address,
            state_dir=Path("/state"),
            engines={engine.NAME: engine.BINARY},
            timers=FAST,
        )
        agent = Agent(config, ports, self.plugins, SimHost(machine), environ={}, offload=_in_place)
        with anyio.CancelScope() as scope:
            task_status.started(scope)
            try:
                await agent.run()
            finally:
                assert isinstance(ports.disk, SimDisk)
                ports.disk.dead = True

    def kill_agents(self) -> None:
        for name, scope in self._agents.items():
            scope.cancel()
            self.world.trace.add(name, "agent killed")


async def _in_place(discover: Callable[[], NodeReport]) -> NodeReport:
    return discover()


@pytest.fixture
def new_cluster() -> Callable[..., Cluster]:
    """Makes a Cluster of a world, a task group, the text of a catalog and a number of machines."""
    return Cluster
