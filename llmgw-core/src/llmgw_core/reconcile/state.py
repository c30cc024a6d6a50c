"""What the reconciler works on: the actual state of the fleet, and replicas assembled from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from llmgw_core.inventory.inventory import Inventory
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.reconcile.backoff import Backoff
from llmgw_core.spec.engine import EngineInfo
from llmgw_core.spec.identity import Epoch
from llmgw_core.spec.intent import Intent
from llmgw_core.spec.shard import Shard
from llmgw_core.spec.status import Failure, ShardStatus

ReplicaState = Literal[
    "Pending",
    "Starting",
    "Loading",
    "Ready",
    "Draining",
    "Unknown",
    "Lost",
    "Held",
    "Stopping",
    "Stopped",
    "Failed",
]
FINAL: frozenset[ReplicaState] = frozenset({"Stopped", "Failed"})
LIVE: frozenset[ReplicaState] = frozenset({"Pending", "Starting", "Loading", "Ready"})
"""States that count as one of the replicas that a model should have."""

Fate = Literal["unnamed", "there", "unknown", "lost", "ended", "refused", "vanished"]
"""What the leader may believe of one rank.

`unnamed`: decided, and no assignment that its node has applied names it yet. `there`: its node lists it
with live processes. `unknown`: its node does not speak. `lost`: its node is Lost. The others are over:
`ended` has a terminal record, `refused` was not taken, `vanished` is not listed though it should be.
"""
OVER: frozenset[Fate] = frozenset({"ended", "refused", "vanished"})


@dataclass(frozen=True)
class Actual:
    """Reports ∪ intents, as one snapshot.

    `quiet`: the amnesty lasts, so no unmatched shard is stopped. `in_flight`: requests that gateways have
    open, by replica. `still_routed`: replicas that drain, and that some gateway has not confirmed to have
    left. `gateways_settled`: every gateway that lives has had the time to connect. `known_revisions`:
    catalog revisions that the store knows. `key_version`: version of the engine secret for new replicas, 0
    for none. `stable_after`: seconds of Ready that clear a backoff. `before`: what the pass before knew of
    the nodes, so that only what has changed is worked out again.
    """

    epoch: Epoch
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    intents: Mapping[str, Intent] = field(default_factory=dict)
    backoff: Mapping[str, Backoff] = field(default_factory=dict)
    in_flight: Mapping[str, int] = field(default_factory=dict)
    still_routed: frozenset[str] = frozenset()
    gateways_settled: bool = True
    engines: Mapping[str, EngineInfo] = field(default_factory=dict)
    known_revisions: frozenset[str] = frozenset()
    quiet: bool = False
    key_version: int = 0
    kill_timeout: float = 30.0
    unhealthy_limit: float = 30.0
    stable_after: float = 30.0
    before: Inventory = field(default_factory=Inventory, repr=False, compare=False)


@dataclass(frozen=True)
class Rank:
    """One shard of a replica, with everything that is known of it."""

    node: str
    fate: Fate
    shard: Shard | None = None
    intent: Intent | None = None
    status: ShardStatus | None = None
    refusal: str = ""
    late: bool = False
    """Its node's last report is old, so nothing is judged by it."""


@dataclass(frozen=True)
class Replica:
    """A replica as the leader sees it; `about` is the Shard of the lowest rank that is known."""

    id: str
    about: Shard
    ranks: tuple[Rank, ...]
    state: ReplicaState = "Pending"
    reason: str = ""
    failure: Failure | None = None

    @property
    def model(self) -> str:
        """Name of the model that it runs."""
        return self.about.model

    @property
    def goals(self) -> frozenset[str]:
        """What its intents want."""
        return frozenset(rank.intent.goal for rank in self.ranks if rank.intent)

    @property
    def matched(self) -> bool:
        """Whether any intent stands behind it."""
        return any(rank.intent for rank in self.ranks)

    @property
    def late(self) -> bool:
        """Whether any of its nodes is late or worse."""
        return any(rank.late for rank in self.ranks)

    @property
    def for_seconds(self) -> float:
        """How long its leader rank has been in its state, as its node says; 0 when it does not say."""
        status = self.ranks[0].status
        return status.for_seconds if status else 0.0
