"""What the control plane knows of one node at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from llmgw_core.spec.identity import Stamp
from llmgw_core.spec.node import NodeReport
from llmgw_core.spec.shard import Shard
from llmgw_core.spec.status import ShardStatus

Freshness = Literal["ready", "late", "unreachable", "lost"]


@dataclass(frozen=True)
class NodeView:
    """A node as the leader sees it.

    `speaks`: it has reported after it echoed this leader's `lead`, so its last report wins over intents.
    `connected`: its stream is open and the lead was echoed on it, so it can be sent to.
    `silence`: seconds since its last message. `freshness`: the verdict on that silence.
    `shards`: the last status of everything that it listed; `specs`: the Shards behind them.
    `registration`: which of its registrations this was seen on; another one since, and it may have lost
    what it is seen to have. `refused`: shard id → why the agent would not take it. `cordoned`: the reason,
    None when it is not.
    """

    name: str
    report: NodeReport | None = None
    speaks: bool = False
    connected: bool = False
    registration: int = 0
    silence: float = 0.0
    freshness: Freshness = "ready"
    applied: Stamp | None = None
    shards: Mapping[str, ShardStatus] = field(default_factory=dict)
    specs: Mapping[str, Shard] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    cordoned: str | None = None
