"""A replica over several nodes: the emptiest of one fabric, on the fabric that loses least by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop

from llmgw_core.placement.asked import Room, Wanted
from llmgw_core.placement.fabrics import Group, groups_for
from llmgw_core.placement.node_state import not_placeable
from llmgw_core.placement.ports import choose_ports
from llmgw_core.placement.result import NodePlacement
from llmgw_core.placement.search import Search
from llmgw_core.placement.take import take

Kin = tuple[str, str]
"""What the nodes of a replica share besides the fabric: link layer and version of the engine."""


@dataclass(frozen=True)
class Team:
    """The nodes of one replica, the leader first, and the link layer that they use."""

    rooms: tuple[Room, ...]
    link_layer: str

    def placements(self, wanted: Wanted) -> tuple[NodePlacement, ...]:
        """What each rank gets."""
        return tuple(
            take(wanted, room, rank=rank, link_layer=self.link_layer) for rank, room in enumerate(self.rooms)
        )


@dataclass
class Bench:
    """Nodes of one kin, in order of preference, until they are enough."""

    rooms: list[Room] = field(default_factory=list)
    leader: Room | None = None

    def add(self, wanted: Wanted, room: Room) -> tuple[Room, ...] | None:
        """The team that is complete with this node; None while more are needed."""
        self.rooms.append(room)
        if self.leader is None and choose_ports(wanted, room.free.ports, rank=0) is not None:
            self.leader = room
        if self.leader is None or len(self.rooms) < wanted.profile.nodes:
            return None
        workers = [one for one in self.rooms if one is not self.leader]
        return (self.leader, *workers[: wanted.profile.nodes - 1])


def pick(wanted: Wanted, rooms: Iterable[Room]) -> Team | None:
    """The first team among nodes of one group that come in order of preference; all passed the filters."""
    benches: dict[Kin, Bench] = {}
    for room in rooms:
        for kin in kinships(wanted, room):
            team = benches.setdefault(kin, Bench()).add(wanted, room)
            if team is not None:
                return Team(team, kin[0])
    return None


def kinships(wanted: Wanted, room: Room) -> tuple[Kin, ...]:
    """As what a node can join others.

    InfiniBand and RoCE never meet, though one label may name both, and engines of two versions do not
    understand each other.
    """
    engine = room.report.engine(wanted.profile.engine)
    version = (engine.version if engine else None) or ""
    layers = sorted({port.link_layer for port in room.rails}) if wanted.uses_fabric else [""]
    return tuple((layer, version) for layer in layers)


def first_team(search: Search) -> Team | None:
    """The best team when only packing and penalties make the score: found without weighing all of them."""
    put_off = None
    for _, group in by_share_left(search, groups_for(search.wanted, search.inventory)):
        team = pick(search.wanted, search.fitting(emptiest(search, group), group.fabric))
        if team is not None and not any(search.avoided(room.name) for room in team.rooms):
            return team
        put_off = put_off or team
    return put_off


def by_share_left(search: Search, groups: Iterable[Group]) -> tuple[tuple[float, Group], ...]:
    """The groups, best first, each with the share of its capacity that would be left; those too small out.

    Capacity is what the profile takes most of: free GPUs of its class, or CPUs.
    """
    profile = search.wanted.profile
    needs = profile.nodes * (profile.gpus_per_node or profile.cpus)
    found = []
    for group in groups:
        capacity = sum(_capacity(search, name) for name in group.nodes)
        if capacity >= needs:
            found.append((1 - needs / max(capacity, 1), group))
    return tuple(sorted(found, key=lambda one: (-one[0], one[1].title)))


def _capacity(search: Search, name: str) -> int:
    profile, free = search.wanted.profile, search.inventory.free(name)
    left = len(free.of_class(profile.gpu_class)) if profile.gpus_per_node else free.cpus
    return left if left and not_placeable(search.inventory.nodes[name]) is None else 0


def emptiest(search: Search, group: Group) -> Iterator[str]:
    """Names in a group in the order in which they are taken: not steered away from, then the emptiest."""
    profile, heap = search.wanted.profile, []
    for name in group.nodes:
        free = search.inventory.free(name)
        if len(free.of_class(profile.gpu_class)) >= profile.gpus_per_node:
            gpus, cpus, memory = free.fullness
            heap.append((search.avoided(name) is not None, -gpus, -cpus, -memory, name))
    # A heap, since of ten thousand only the first few are needed.
    heapify(heap)
    while heap:
        yield heappop(heap)[-1]
