"""What one control process knows of every node, across the streams on which it heard it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from llmgw_core.inventory.freshness import freshness
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.reconcile.assignment import Orders
from llmgw_core.spec import Epoch, NodeReport, Register, Report, Shard, ShardStatus, Stamp, Value
from llmgw_core.timers import Timers


class Post(Protocol):
    """The sending side of a node's present stream."""

    def post(self, message: Value) -> None:
        """Hand a message to the stream's writer; an assignment replaces one that has not left yet."""


@dataclass
class Node:
    """One node. What belongs to a leadership is forgotten with it, see `begin`."""

    name: str
    last: float
    """Monotonic time of the last message, or of the beginning of this leadership."""
    stream: Post | None = None
    registrations: int = 0
    """How often it has registered with this process."""
    report: NodeReport | None = None
    shards: Mapping[str, ShardStatus] = field(default_factory=dict)
    specs: dict[str, Shard] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    applied: Stamp | None = None
    echoed: Epoch | None = None
    """The lead that was echoed on the present stream."""
    spoke: Epoch | None = None
    """The leadership that a report was made for."""
    number: int = 0
    sent: Orders | None = None
    sent_at: float = 0.0

    def begin(self, now: float) -> None:
        """A new leadership: its silence, numbers and echoes begin anew."""
        self.last, self.echoed, self.spoke = now, None, None
        self.number, self.sent = 0, None

    def register(self, message: Register, stream: Post, epoch: Epoch, now: float) -> None:
        """A new stream with everything that runs there."""
        self.stream, self.last = stream, now
        self.registrations += 1
        self.echoed, self.sent = None, None
        self.report = message.report
        self.specs = {record.shard.shard: record.shard for record in message.shards}
        self.shards = {record.status.shard: record.status for record in message.shards}
        self.refused = {}
        # An agent whose state was lost may have acted on all that was sent to it, and on nothing after.
        self.applied = message.applied or Stamp(epoch=epoch, number=self.number)

    def hear(self, message: Report, now: float) -> None:
        """A report on the present stream."""
        self.last = now
        self.shards = {status.shard: status for status in message.shards}
        on_its_way = {shard.shard for shard in self.sent.run} if self.sent else set()
        kept = self.shards.keys() | on_its_way
        self.specs = {shard: spec for shard, spec in self.specs.items() if shard in kept}
        self.refused = message.refused
        if message.applied is not None:
            self.applied = message.applied
        if message.report is not None:
            self.report = message.report
        if message.echo is not None:
            self.echoed = message.echo
        self.spoke = self.echoed or self.spoke

    def sending(self, number: int, orders: Orders, now: float) -> None:
        """An assignment leaves. Reports name shards only by id: what was sent says what they are."""
        self.number, self.sent, self.sent_at = number, orders, now
        self.specs |= {shard.shard: shard for shard in orders.run}


class Fleet:
    """Every node that this control process has heard of."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self.nodes: dict[str, Node] = {}
        self.lost: set[str] = set()

    def node(self, name: str, now: float) -> Node:
        """The node of that name, made when it is new."""
        return self.nodes.setdefault(name, Node(name, last=now))

    def expect(self, shard: Shard, now: float) -> None:
        """Know every node of a replica, also those that were never heard."""
        for peer in shard.peers:
            self.node(peer.node, now)

    def begin(self, now: float) -> None:
        """A new leadership, or the end of a pause of our own: nobody's silence is evidence any more."""
        self.lost.clear()
        for node in self.nodes.values():
            node.begin(now)

    def forgive(self, now: float) -> None:
        """We were away ourselves: silence is counted from now on."""
        for node in self.nodes.values():
            node.last = now

    def views(self, epoch: Epoch, now: float, *, quiet: bool) -> dict[str, NodeView]:
        """A frozen view of each node by name, with the verdict on its silence."""
        views = {name: self._view(node, epoch, now, quiet) for name, node in sorted(self.nodes.items())}
        self.lost = {name for name, view in views.items() if view.freshness == "lost"}
        return views

    def _view(self, node: Node, epoch: Epoch, now: float, quiet: bool) -> NodeView:
        silence = now - node.last
        speaks = node.spoke == epoch
        return NodeView(
            name=node.name,
            report=node.report,
            speaks=speaks,
            connected=node.stream is not None and node.echoed == epoch,
            registration=node.registrations,
            silence=silence,
            freshness=freshness(silence, self._timers, was_lost=node.name in self.lost, amnesty=quiet),
            applied=node.applied,
            shards=node.shards,
            specs={shard: spec for shard, spec in node.specs.items() if shard in node.shards},
            refused=node.refused,
        )
