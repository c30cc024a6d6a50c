"""What an agent knows of its node and of every shard on it: the values that its rules work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from llmgw_core.ports import ProcessId
from llmgw_core.spec.identity import NO_EPOCH, Epoch, Stamp
from llmgw_core.spec.shard import Shard
from llmgw_core.spec.status import TERMINAL, AgentGoal, AgentState, Failure

MAX_TERMINAL = 200
"""Terminal records that are kept at most, as long as the leader has seen what is evicted."""
ENGINE = "engine"
"""Name of the last command of a shard, whose exit is the shard's own."""


@dataclass(frozen=True)
class Process:
    """One command of a shard that was started: its name, who it is, and the signal that ends it."""

    name: str
    id: ProcessId
    stop_signal: Literal["TERM", "INT"] = "TERM"


@dataclass(frozen=True)
class Record:
    """A shard as its node knows it. Times are monotonic seconds of the boot named by `boot`.

    `launched`: its launch has begun, so it may have processes. `failure` together with state Stopping
    says that it failed and is being cleaned up. `misses` counts liveness probes that failed in a row.
    `seen_by` is the leadership that has acknowledged a report of its end.
    """

    shard: Shard
    goal: AgentGoal
    state: AgentState
    since: float
    boot: str
    token: str
    key: str | None = field(default=None, repr=False)
    processes: tuple[Process, ...] = ()
    adopted: bool = False
    launched: bool = False
    grace: float | None = None
    misses: int = 0
    detail: str = ""
    progress_text: str = ""
    failure: Failure | None = None
    seen_by: Epoch | None = None

    @property
    def id(self) -> str:
        """The shard id."""
        return self.shard.shard

    @property
    def ended(self) -> bool:
        """Whether no process of it is left."""
        return self.state in TERMINAL

    @property
    def engine(self) -> Process | None:
        """The process whose exit is the shard's exit."""
        return next((process for process in self.processes if process.name == ENGINE), None)


@dataclass(frozen=True)
class NodeState:
    """Everything that an agent keeps: the leadership it obeys, what it applied, its records.

    `cluster` is None before the first welcome. `applied` is None when nothing is known of earlier
    assignments. `refused` maps a shard id that was never started here to the reason.
    """

    heard: Epoch = NO_EPOCH
    applied: Stamp | None = None
    cluster: str | None = None
    records: Mapping[str, Record] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def live(self) -> tuple[Record, ...]:
        """Records that may have processes or still hold resources."""
        return tuple(record for record in self.records.values() if not record.ended)

    def put(self, record: Record) -> NodeState:
        """This state with one record added or replaced."""
        return replace(self, records={**self.records, record.id: record})

    def without(self, shards: frozenset[str]) -> NodeState:
        """This state without these records."""
        kept = {shard: record for shard, record in self.records.items() if shard not in shards}
        return replace(self, records=kept)
