"""One question of placement: may this profile of this model run on this node?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from llmgw_core.catalog.model import Model
from llmgw_core.inventory.free import Free
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.spec.engine import EngineInfo
from llmgw_core.spec.node import NodeReport
from llmgw_core.spec.placement import Rejection
from llmgw_core.spec.shard import Profile


@dataclass(frozen=True)
class Wanted:
    """What is to be placed: a model under one of its profiles, with the facts about the engine."""

    model: Model
    profile: Profile
    engine: EngineInfo


@dataclass(frozen=True)
class Room:
    """A node that has reported, and what is free on it."""

    view: NodeView
    report: NodeReport
    free: Free

    @property
    def name(self) -> str:
        """The node's name."""
        return self.view.name

    @cached_property
    def fullness(self) -> tuple[int, int, int, str]:
        """Sorts the fullest node first: fewest free GPUs, CPUs, memory; names break ties."""
        return len(self.free.gpus), self.free.cpus, self.free.memory_mib, self.name


def reject(
    wanted: Wanted, node: str, constraint: str, *, needs: object, has: object, detail: str = ""
) -> Rejection:
    """The record of one refusal."""
    return Rejection(
        profile=wanted.profile.name,
        node=node,
        constraint=constraint,
        needed=str(needs),
        had=str(has),
        detail=detail,
    )
