"""Which shard holds what of a node, and what that leaves."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from llmgw_core.inventory.free import Free, FreePorts
from llmgw_core.spec.node import FabricPort, Gpu, NodeReport
from llmgw_core.spec.shard import Shard

_BY_INDEX = attrgetter("index")
_BY_NAME = attrgetter("device", "port")


class Holders:
    """Which shard holds which GPU of a node: by index and by UUID, the first shard where two do."""

    def __init__(self, shards: Iterable[Shard]) -> None:
        self._shards: dict[int | str, tuple[int, Shard]] = {}
        for place, shard in enumerate(shards):
            for ref in shard.gpus:
                self._shards.setdefault(ref.index, (place, shard))
                if ref.uuid:
                    self._shards.setdefault(ref.uuid, (place, shard))

    def of(self, gpu: Gpu) -> Shard | None:
        """The shard that holds a GPU."""
        by_index, by_uuid = self._shards.get(gpu.index), self._shards.get(gpu.uuid)
        if by_index is None or by_uuid is None:
            found = by_index or by_uuid
            return found[1] if found else None
        return min(by_index, by_uuid, key=lambda one: one[0])[1]


def by_node(held: Iterable[Shard]) -> dict[str, tuple[Shard, ...]]:
    """The shards of each node in the order of their ids, each id once."""
    once = {shard.shard: shard for shard in held}
    found: dict[str, list[Shard]] = {}
    for name in sorted(once):
        found.setdefault(once[name].node, []).append(once[name])
    return {node: tuple(shards) for node, shards in found.items()}


def remaining(report: NodeReport, shards: tuple[Shard, ...]) -> Free:
    """What these shards leave of the node that made a report."""
    gpus = sorted(report.gpus, key=_BY_INDEX)
    held = _held(gpus, shards) if shards else {}
    left = [gpu for gpu in gpus if gpu.index not in held] if held else gpus
    hcas = {(ref.device, ref.port): shard for shard in reversed(shards) for ref in shard.hca_ports}
    return Free(
        gpus=tuple(gpu for gpu in left if gpu.usable),
        unusable=tuple(gpu for gpu in left if not gpu.usable),
        held=held,
        cpus=max(0, report.cpus - sum(shard.cpus for shard in shards)),
        memory_mib=max(0, report.memory_mib - sum(shard.memory_mib for shard in shards)),
        ports=FreePorts(
            report.port_range,
            frozenset(report.ports_busy).union(*(shard.ports for shard in shards)),
        ),
        hcas=_free_hcas(report.fabric_ports, hcas),
        held_hcas=hcas,
    )


def _held(gpus: Iterable[Gpu], shards: tuple[Shard, ...]) -> dict[int, Shard]:
    holders = Holders(shards)
    return {gpu.index: holder for gpu in gpus if (holder := holders.of(gpu)) is not None}


def _free_hcas(ports: tuple[FabricPort, ...], held: dict[tuple[str, int], Shard]) -> tuple[FabricPort, ...]:
    free = [port for port in ports if port.usable and (port.device, port.port) not in held]
    return tuple(sorted(free, key=_BY_NAME))
