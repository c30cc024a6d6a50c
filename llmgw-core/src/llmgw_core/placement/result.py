"""What placement answers: a place for one replica, or every reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw_core.spec.placement import Rejection
from llmgw_core.spec.shard import GpuRef, HcaRef, Profile


@dataclass(frozen=True)
class NodePlacement:
    """What one shard gets on its node. Memory in MiB; `extra_ports` by the name that the engine gave."""

    node: str
    address: str
    gpus: tuple[GpuRef, ...]
    cpus: int
    memory_mib: int
    http_port: int
    rendezvous_port: int | None = None
    extra_ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    fabric: str | None = None
    hca_ports: tuple[HcaRef, ...] = ()


@dataclass(frozen=True)
class PluginScore:
    """What one plugin thought of a candidate, 0 to 1."""

    plugin: str
    score: float
    reason: str = ""


@dataclass(frozen=True)
class CandidateScore:
    """How a candidate fared: 1 for the fullest that fits, less for emptier ones, and plugins' scores."""

    candidate: str
    packing: float
    plugins: tuple[PluginScore, ...] = ()

    @property
    def total(self) -> float:
        """What decides; equal totals go to the fuller node."""
        return self.packing + sum(score.score for score in self.plugins)


@dataclass(frozen=True)
class Placement:
    """A place for one replica. `scores` are best first, `rejections` what was passed over on the way.

    `notes` name plugins whose score could not be counted.
    """

    profile: Profile
    nodes: tuple[NodePlacement, ...]
    scores: tuple[CandidateScore, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unschedulable:
    """No profile of the model fits anywhere: every rejected candidate of every profile."""

    model: str
    rejections: tuple[Rejection, ...]
