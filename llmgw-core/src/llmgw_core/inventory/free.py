"""What of a node can still be handed out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from llmgw_core.spec.node import FabricPort, Gpu, PortRange
from llmgw_core.spec.shard import Shard


@dataclass(frozen=True)
class FreePorts:
    """The ports of a range that are neither held nor busy; computed as they are asked for."""

    range: PortRange
    taken: frozenset[int] = frozenset()

    def __contains__(self, port: object) -> bool:
        return (
            isinstance(port, int) and self.range.first <= port <= self.range.last and port not in self.taken
        )

    def __iter__(self) -> Iterator[int]:
        return (port for port in range(self.range.first, self.range.last + 1) if port not in self.taken)

    def lowest_block(self, size: int) -> tuple[int, ...] | None:
        """The lowest `size` free ports in a row; None when there are no such."""
        block: list[int] = []
        for port in self:
            if block and port != block[-1] + 1:
                block.clear()
            block.append(port)
            if len(block) == size:
                return tuple(block)
        return None


@dataclass(frozen=True)
class Free:
    """What of a node is not held: `gpus` can be handed out, `unusable` say why they cannot.

    `held` maps the index of a GPU to the shard that holds it; `held_hcas` does so for adapter ports, by
    device and port. `hcas` are the adapter ports that are usable and not held, in the order of their
    names. Memory in MiB.
    """

    gpus: tuple[Gpu, ...] = ()
    unusable: tuple[Gpu, ...] = ()
    held: Mapping[int, Shard] = field(default_factory=dict)
    cpus: int = 0
    memory_mib: int = 0
    ports: FreePorts = field(default_factory=lambda: FreePorts(PortRange(first=1, last=1), frozenset({1})))
    hcas: tuple[FabricPort, ...] = ()
    held_hcas: Mapping[tuple[str, int], Shard] = field(default_factory=dict)

    @cached_property
    def by_class(self) -> Mapping[str, tuple[Gpu, ...]]:
        """The free GPUs of each class, lowest index first. What has no class is of none."""
        found: dict[str, list[Gpu]] = {}
        for gpu in self.gpus:
            if gpu.gpu_class is not None:
                found.setdefault(gpu.gpu_class, []).append(gpu)
        return {name: tuple(gpus) for name, gpus in found.items()}

    def of_class(self, gpu_class: str | None) -> tuple[Gpu, ...]:
        """The free GPUs of one class; none where no class is named."""
        return self.by_class.get(gpu_class, ()) if gpu_class is not None else ()

    @cached_property
    def fullness(self) -> tuple[int, int, int]:
        """Sorts the fullest node first: fewest free GPUs, then CPUs, then memory."""
        return len(self.gpus), self.cpus, self.memory_mib


NOTHING = Free()
"""What is free where no report is known."""
