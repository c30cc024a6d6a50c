"""A simulated world: machines, a network and a store, all from one seed."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from llmgw_core.ports import AgentPorts
from llmgw_core.simulate.clock_rand import SimClock, SimRand
from llmgw_core.simulate.machine import Machine, SimDisk, SimProc
from llmgw_core.simulate.net import SimNet, SimNetwork
from llmgw_core.simulate.store import SimStore
from llmgw_core.simulate.trace import Trace


class World:
    """Everything outside the programs under simulation. `tasks` runs the network's servers."""

    def __init__(self, seed: int, tasks: TaskGroup) -> None:
        self._seed = seed
        self.trace = Trace()
        self.clock = SimClock()
        self.store = SimStore(self.trace)
        self.network = SimNetwork(tasks, self.trace, SimRand(seed, "network"))

    def rand(self, user: str) -> SimRand:
        """Randomness for one program."""
        return SimRand(self._seed, user)

    def machine(self, name: str, address: str) -> Machine:
        """A new machine on the network."""
        machine = Machine(name, address, self.trace)
        self.network.machines[address] = machine
        return machine

    def agent_ports(self, machine: Machine, life: int) -> AgentPorts:
        """The ports of one agent process; `life` counts the agents that the machine has had."""
        return AgentPorts(
            clock=self.clock,
            net=SimNet(machine, self.network),
            proc=SimProc(machine),
            disk=SimDisk(machine),
            rand=self.rand(f"{machine.name}/{life}"),
        )


async def until(condition: Callable[[], bool], *, within: float, step: float = 0.05) -> None:
    """Let virtual time pass until `condition` holds. Raises TimeoutError after `within` seconds."""
    with anyio.fail_after(within):
        while not condition():  # noqa: ASYNC110  (the condition is looked at from outside, as a test does)
            await anyio.sleep(step)
