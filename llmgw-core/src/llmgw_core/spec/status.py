"""What an agent says about a shard: states, failures, load."""

from __future__ import annotations

from typing import Literal, get_args

from llmgw_core.spec.value import Value

__all__ = [
    "FAILURE_CLASSES",
    "TERMINAL",
    "AgentGoal",
    "AgentState",
    "Failure",
    "FailureClass",
    "Load",
    "ProcessFact",
    "ShardStatus",
]

AgentState = Literal[
    "Pending",
    "Starting",
    "Loading",
    "Ready",
    "Unhealthy",
    "Draining",
    "Stopping",
    "Stopped",
    "Failed",
    "Unkillable",
]
AgentGoal = Literal["run", "drain", "stop"]
TERMINAL: frozenset[AgentState] = frozenset({"Stopped", "Failed"})
"""States of a record whose processes are gone; it is kept until the leader dismisses it."""

FailureClass = Literal[
    "configuration",
    "out_of_memory",
    "port_in_use",
    "rendezvous",
    "crash",
    "killed",
    "unsafe_listen",
    "agent",
    "vanished",
    "rebooted",
]
FAILURE_CLASSES: tuple[FailureClass, ...] = get_args(FailureClass)


class Failure(Value):
    """Why a shard failed. `failure` is the class, `tail` at most 2 KiB of the engine's last lines."""

    failure: FailureClass
    detail: str = ""
    exit_code: int | None = None
    signal: str | None = None
    tail: str = ""
    hint: str = ""


class Load(Value):
    """The engine's own figures; `age` in seconds since they were read. None = not offered."""

    running: float | None = None
    waiting: float | None = None
    kv: float | None = None
    tokens_total: float | None = None
    age: float = 0.0


class ProcessFact(Value):
    """A process of a shard; `started` is the kernel's start time in clock ticks since boot."""

    name: str
    pid: int
    started: int


class ShardStatus(Value):
    """State of one shard on its node; `for_seconds` is how long it has been in that state."""

    shard: str
    state: AgentState
    goal: AgentGoal = "run"
    for_seconds: float = 0.0
    pid: int | None = None
    processes: tuple[ProcessFact, ...] = ()
    adopted: bool = False
    progress: float | None = None
    progress_text: str = ""
    detail: str = ""
    load: Load | None = None
    failure: Failure | None = None

    @property
    def ended(self) -> bool:
        """Whether no process of it is left."""
        return self.state in TERMINAL
