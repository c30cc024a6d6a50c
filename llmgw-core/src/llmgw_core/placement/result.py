"""What placement answers: a place for one replica, or every reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

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
    fabric_strength: Literal["label", "strong", "weak"] | None = None
    hca_ports: tuple[HcaRef, ...] = ()


@dataclass(frozen=True)
class PluginScore:
    """What one plugin thought of a candidate, 0 to 1, and how much the operator lets that count."""

    plugin: str
    score: float
    reason: str = ""
    weight: float = 1.0


@dataclass(frozen=True)
class CandidateScore:
    """How a candidate fared.

    `packing` is 1 for the node that suits best by what is free on it and less for others; for several
    nodes it is the share of their fabric that would be left. `penalty` is for nodes on which the model
    failed, and `avoided` says so.
    """

    candidate: str
    packing: float
    plugins: tuple[PluginScore, ...] = ()
    penalty: float = 0.0
    avoided: str = ""

    @property
    def total(self) -> float:
        """What decides; equal totals go to the better packing, then to the first by name."""
        return self.packing - self.penalty + sum(score.weight * score.score for score in self.plugins)


@dataclass(frozen=True)
class Survey:
    """Everything that was weighed: `scores` are best first, `notes` name what could not be counted."""

    scores: tuple[CandidateScore, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Look:
    """One profile looked at: what the ranks would get, None when it fits nowhere, and on demand why."""

    nodes: tuple[NodePlacement, ...] | None
    surveyed: Callable[[], Survey]


@dataclass(frozen=True)
class Placement:
    """A place for one replica, and on demand how the candidates fared.

    Weighing all nodes for people takes longer than choosing one, so it is only done for who asks.
    """

    profile: Profile
    nodes: tuple[NodePlacement, ...]
    surveyed: Callable[[], Survey] = field(default=Survey, repr=False, compare=False)

    @cached_property
    def _survey(self) -> Survey:
        return self.surveyed()

    @property
    def scores(self) -> tuple[CandidateScore, ...]:
        """The candidates of the profile that was taken, best first."""
        return self._survey.scores

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """What was passed over on the way, the profiles before this one included."""
        return self._survey.rejections

    @property
    def notes(self) -> tuple[str, ...]:
        """Plugins whose score could not be counted."""
        return self._survey.notes


@dataclass(frozen=True)
class Unschedulable:
    """No profile of the model fits anywhere; on demand why, and what would change that."""

    model: str
    surveyed: Callable[[], tuple[Rejection, ...]] = field(repr=False, compare=False)
    tried: Callable[[tuple[Rejection, ...]], tuple[str, ...]] = field(repr=False, compare=False)

    @cached_property
    def rejections(self) -> tuple[Rejection, ...]:
        """Every rejected candidate of every profile."""
        return self.surveyed()

    @cached_property
    def remedies(self) -> tuple[str, ...]:
        """Single changes after any one of which a profile would fit, as far as they were tried."""
        return self.tried(self.rejections)
