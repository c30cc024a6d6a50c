"""What the tasks of one shard work with: the ports, and the shard's own record in the keeper."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from llmgw_core.node.state import Record
from llmgw_core.plugins import PluginHost
from llmgw_core.ports import AgentPorts
from llmgw_core.spec import NodeReport
from llmgw_core.timers import Timers

from llmgw_agent.launch import Launcher
from llmgw_agent.logs import Logs
from llmgw_agent.state import StateKeeper

Event = Callable[[Record, float], Record]
"""One event of `node.lifecycle`, waiting for the record and the time."""


@dataclass(frozen=True)
class Tools:
    """What every shard of this node is run with.

    `report` waits for the first discovery; `port_taken` is told of a port that could not be bound.
    """

    ports: AgentPorts
    plugins: PluginHost
    keeper: StateKeeper
    logs: Logs
    launcher: Launcher
    timers: Timers
    report: Callable[[], Awaitable[NodeReport]]
    port_taken: Callable[[int], None]


class RecordHandle:
    """One shard's record. It is the last known one when the leader has dismissed it meanwhile."""

    def __init__(self, shard: str, tools: Tools) -> None:
        self._shard = shard
        self._tools = tools
        self._last = tools.keeper.state.records[shard]

    @property
    def record(self) -> Record:
        """The record as it is now."""
        self._last = self._tools.keeper.state.records.get(self._shard, self._last)
        return self._last

    async def happened(self, event: Event) -> Record:
        """Apply an event, also while the disk does not work."""
        await self._tools.keeper.change(self._shard, lambda record: event(record, self._now()))
        return self.record

    async def committed(self, event: Event) -> Record:
        """Apply an event durably. Raises OSError, with nothing changed."""
        await self._tools.keeper.commit(self._shard, lambda record: event(record, self._now()))
        return self.record

    def _now(self) -> float:
        return self._tools.ports.clock.monotonic()
