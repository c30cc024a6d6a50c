"""What shards hold on a node, and whether one more fits: the last wall against handing out twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmgw_core.node.state import NodeState, Record
from llmgw_core.spec.shard import Shard


@dataclass(frozen=True)
class Capacity:
    """What the node has in all: logical CPUs and MiB of memory."""

    cpus: int
    memory_mib: int


@dataclass(frozen=True)
class Conflict:
    """Why a shard cannot start now; `waits` when the end of what is stopping would make room."""

    reason: str
    waits: bool


def conflict(state: NodeState, shard: Shard, capacity: Capacity) -> Conflict | None:
    """What keeps `shard` from starting, None when everything that it needs is free."""
    others = [record for record in state.live if record.id != shard.shard]
    staying = [record for record in others if record.state != "Stopping"]
    if reason := _overlap(staying, shard, capacity):
        return Conflict(reason, waits=False)
    if reason := _overlap(others, shard, capacity):
        return Conflict(reason, waits=True)
    return None


def _overlap(holders: Iterable[Record], shard: Shard, capacity: Capacity) -> str | None:
    holders = tuple(holders)
    for record in holders:
        if shared := _claims(shard) & _claims(record.shard):
            return f"{', '.join(sorted(shared))} held by {record.id} ({record.state})"
    cpus = sum(record.shard.cpus for record in holders)
    if cpus + shard.cpus > capacity.cpus:
        return f"needs {shard.cpus} CPUs, {capacity.cpus - cpus} of {capacity.cpus} are free"
    memory = sum(record.shard.memory_mib for record in holders)
    if memory + shard.memory_mib > capacity.memory_mib:
        return (
            f"needs {shard.memory_mib} MiB, {capacity.memory_mib - memory} of {capacity.memory_mib} are free"
        )
    return None


def _claims(shard: Shard) -> frozenset[str]:
    """Names of everything that only one shard may hold; a GPU counts by index and by UUID."""
    return frozenset(
        {
            *(f"GPU {gpu.index}" for gpu in shard.gpus),
            *(gpu.uuid for gpu in shard.gpus),
            *(f"HCA {hca.device}:{hca.port}" for hca in shard.hca_ports),
            *(f"port {port}" for port in shard.ports),
        }
    )
