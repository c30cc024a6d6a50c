"""The fleet at one moment: what every node reported, and what is held on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from llmgw_core.inventory.free import Free, FreePorts
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.spec.node import Gpu, NodeReport
from llmgw_core.spec.shard import Shard


@dataclass(frozen=True)
class Inventory:
    """Nodes by name, and every shard that still holds resources.

    `held` comes from intents and reports alike; a shard that both name counts once. What the same
    snapshot is asked never changes: a new pass builds a new one.
    """

    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    held: tuple[Shard, ...] = ()

    def held_on(self, node: str) -> tuple[Shard, ...]:
        """The shards that hold something on a node, in the order of their ids."""
        return self._by_node.get(node, ())

    def used_by(self, node: str, gpu: Gpu) -> Shard | None:
        """The shard that holds a GPU of that node.

        The driver's UUID decides and, since a report may follow a renumbering, the index as well.
        """
        for shard in self.held_on(node):
            if any(ref.index == gpu.index or (gpu.uuid and ref.uuid == gpu.uuid) for ref in shard.gpus):
                return shard
        return None

    def free(self, node: str) -> Free:
        """What can still be handed out on a node; nothing where no report is known."""
        if node not in self._free:
            view = self.nodes.get(node)
            report = view.report if view else None
            self._free[node] = self._remaining(node, report) if report else Free()
        return self._free[node]

    @cached_property
    def _by_node(self) -> Mapping[str, tuple[Shard, ...]]:
        once = {shard.shard: shard for shard in self.held}
        by_node: dict[str, tuple[Shard, ...]] = {}
        for name in sorted(once):
            shard = once[name]
            by_node[shard.node] = (*by_node.get(shard.node, ()), shard)
        return by_node

    @cached_property
    def _free(self) -> dict[str, Free]:
        return {}

    def _remaining(self, node: str, report: NodeReport) -> Free:
        shards = self.held_on(node)
        holders = {gpu.index: shard for gpu in report.gpus if (shard := self.used_by(node, gpu)) is not None}
        left = tuple(gpu for gpu in report.gpus if gpu.index not in holders)
        ports = {port for shard in shards for port in shard.ports}
        return Free(
            gpus=tuple(sorted((gpu for gpu in left if gpu.usable), key=lambda gpu: gpu.index)),
            unusable=tuple(sorted((gpu for gpu in left if not gpu.usable), key=lambda gpu: gpu.index)),
            held=holders,
            cpus=max(0, report.cpus - sum(shard.cpus for shard in shards)),
            memory_mib=max(0, report.memory_mib - sum(shard.memory_mib for shard in shards)),
            ports=FreePorts(report.port_range, frozenset(ports | set(report.ports_busy))),
        )
