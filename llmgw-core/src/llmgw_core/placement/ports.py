"""The ports of a shard: one block of its node's range, HTTP first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmgw_core.inventory.free import FreePorts
from llmgw_core.placement.asked import Wanted
from llmgw_core.spec.engine import PortNeed

RENDEZVOUS = "rendezvous"
"""Name of the need that is met by the one port at which all ranks of a replica meet."""


@dataclass(frozen=True)
class Ports:
    """What a shard gets; `extra` by the name that the engine gave."""

    http: int
    rendezvous: int | None
    extra: Mapping[str, tuple[int, ...]]


def _needs(wanted: Wanted, rank: int) -> tuple[PortNeed, ...]:
    over_nodes = wanted.profile.nodes > 1
    return tuple(
        need
        for need in wanted.engine.ports
        if (over_nodes or not need.only_multi_node) and (rank == 0 or need.ranks == "all")
    )


def ports_needed(wanted: Wanted, rank: int = 0) -> int:
    """How many ports in a row the shard of a rank takes; the leader, rank 0, takes the most."""
    return 1 + sum(need.count for need in _needs(wanted, rank))


def choose_ports(wanted: Wanted, free: FreePorts, rank: int = 0) -> Ports | None:
    """The ports of one rank; None where no block is free.

    The leader's port named `rendezvous` is the replica's when there are others to meet. On one node there
    are none, and it is an extra port like any other.
    """
    block = free.lowest_block(ports_needed(wanted, rank))
    if block is None:
        return None
    rendezvous, rest = None, list(block[1:])
    extra: dict[str, tuple[int, ...]] = {}
    for need in _needs(wanted, rank):
        taken, rest = tuple(rest[: need.count]), rest[need.count :]
        if need.name == RENDEZVOUS and rank == 0 and wanted.profile.nodes > 1:
            rendezvous, taken = taken[0], taken[1:]
        if taken:
            extra[need.name] = taken
    return Ports(block[0], rendezvous, extra)
