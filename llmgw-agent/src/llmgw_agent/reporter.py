"""What an agent tells a control plane, in order: one register, then reports with growing numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio
from llmgw_core.node.report import shard_records, statuses
from llmgw_core.node.state import NodeState
from llmgw_core.ports import AgentPorts
from llmgw_core.spec import Epoch, NodeReport, Register, Report

from llmgw_agent.logs import Logs
from llmgw_agent.state import StateKeeper
from llmgw_agent.supervisor import Supervisor


@dataclass(frozen=True)
class NodeLink:
    """What every stream of this agent shares. `leaving` is set when the agent wants to go."""

    ports: AgentPorts
    keeper: StateKeeper
    supervisor: Supervisor
    logs: Logs
    instance: str
    version: str
    node: str
    report: Callable[[], NodeReport]
    leaving: anyio.Event
    draining: anyio.Event


class Reporter:
    """Makes the messages of one stream, and remembers what each of them told."""

    def __init__(self, link: NodeLink) -> None:
        self._link = link
        self._seq = 0
        self._echo: Epoch | None = None
        self._node_told: NodeReport | None = None
        self._ended_in: dict[int, frozenset[str]] = {}

    def echo(self, epoch: Epoch) -> None:
        """The next report echoes this lead."""
        self._echo = epoch

    def acknowledged(self, seq: int) -> frozenset[str]:
        """The shards whose end was told in message `seq`, which the control plane has now."""
        ended = self._ended_in.pop(seq, frozenset())
        self._ended_in = {sent: shards for sent, shards in self._ended_in.items() if sent > seq}
        return ended

    def register(self) -> Register:
        """The first message: everything."""
        link, state = self._link, self._link.keeper.state
        self._node_told = link.report()
        return Register(
            cluster=state.cluster,
            node=link.node,
            instance=link.instance,
            agent_version=link.version,
            boot=link.ports.proc.boot_id(),
            heard=state.heard,
            applied=state.applied,
            seq=self._next_seq(state),
            report=self._node_told,
            shards=shard_records(state, link.ports.clock.monotonic()),
        )

    def report(self) -> Report:
        """All statuses; the node itself only when it has changed."""
        state, node = self._link.keeper.state, self._link.report()
        changed = node if node != self._node_told else None
        self._node_told = node
        echo, self._echo = self._echo, None
        return Report(
            seq=self._next_seq(state),
            heard=state.heard,
            applied=state.applied,
            echo=echo,
            shards=statuses(state, self._link.ports.clock.monotonic()),
            report=changed,
            refused=dict(state.refused),
        )

    def _next_seq(self, state: NodeState) -> int:
        self._seq += 1
        self._ended_in[self._seq] = frozenset(record.id for record in state.records.values() if record.ended)
        return self._seq
