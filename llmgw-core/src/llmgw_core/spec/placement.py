"""Values of placement that scoring plugins and explanations share."""

from __future__ import annotations

from pydantic import Field

from llmgw_core.spec.shard import Profile
from llmgw_core.spec.value import FrozenMap, Value

__all__ = ["Ask", "Candidate", "Rejection", "Score"]


class Ask(Value):
    """What is to be placed: one replica of a model under one profile."""

    model: str
    profile: Profile


class Candidate(Value):
    """Nodes that could take the replica together; memory in MiB, all figures per node name."""

    id: str
    nodes: tuple[str, ...]
    fabric: str | None = None
    free_gpus: FrozenMap[str, int] = Field(default_factory=dict)
    free_cpus: FrozenMap[str, int] = Field(default_factory=dict)
    free_memory_mib: FrozenMap[str, int] = Field(default_factory=dict)
    labels: FrozenMap[str, FrozenMap[str, str]] = Field(default_factory=dict)


class Rejection(Value):
    """Why a node (or candidate) cannot take a profile: the constraint, what it needs and what it has.

    For a replica over several nodes `fabric` is the one that was tried; `node` is its key as well where
    the fabric itself does not do.
    """

    profile: str
    node: str
    constraint: str
    needed: str
    had: str
    detail: str = ""
    fabric: str | None = None

    def __str__(self) -> str:
        tail = f" ({self.detail})" if self.detail else ""
        return f"{self.node}: {self.constraint}: needs {self.needed}, has {self.had}{tail}"


class Score(Value):
    """A plugin's opinion of one candidate, 0 (worst) to 1 (best), with the reason."""

    candidate: str
    score: float = Field(ge=0.0, le=1.0)
    reason: str = ""
