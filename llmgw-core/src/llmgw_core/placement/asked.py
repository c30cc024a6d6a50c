"""One question of placement: may this profile of this model run on this node?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from llmgw_core.catalog.model import Model
from llmgw_core.inventory.free import Free
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.spec.engine import EngineInfo
from llmgw_core.spec.node import FabricPort, NodeReport
from llmgw_core.spec.placement import Rejection
from llmgw_core.spec.shard import Profile
from llmgw_core.spec.versions import VersionRange, parse_version_range

CLUSTER = "cluster"
"""Stands for the node in a rejection that concerns no single one."""


@dataclass(frozen=True)
class Wanted:
    """What is to be placed: a model under one of its profiles, with the facts about the engine."""

    model: Model
    profile: Profile
    engine: EngineInfo

    @cached_property
    def uses_fabric(self) -> bool:
        """Whether its GPUs reach each other over adapters, which it then holds."""
        return self.profile.nodes > 1 and self.profile.gpus_per_node > 0

    def takes(self, version: str) -> bool:
        """Whether the profile may run on this version of its engine."""
        known = self._versions
        if version not in known:
            known[version] = self._range.contains(self.engine, version)
        return known[version]

    @cached_property
    def _range(self) -> VersionRange:
        return parse_version_range(self.profile.engine_version or "")

    @cached_property
    def _versions(self) -> dict[str, bool]:
        # A cluster has thousands of nodes and a handful of versions.
        return {}


@dataclass(frozen=True)
class Room:
    """A node that has reported, and what is free on it.

    `fabric` is the one over which it would join others, and `rails` its ports on that one.
    """

    view: NodeView
    report: NodeReport
    free: Free
    fabric: str | None = None
    rails: tuple[FabricPort, ...] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.view.name

    @property
    def fullness(self) -> tuple[int, int, int, str]:
        """Sorts the fullest node first: fewest free GPUs, CPUs, memory; names break ties."""
        return (*self.free.fullness, self.name)


def reject(
    wanted: Wanted,
    node: str,
    constraint: str,
    *,
    needs: object,
    has: object,
    detail: str = "",
    fabric: str | None = None,
) -> Rejection:
    """The record of one refusal."""
    return Rejection(
        profile=wanted.profile.name,
        node=node,
        constraint=constraint,
        needed=str(needs),
        had=str(has),
        detail=detail,
        fabric=fabric,
    )
