"""The fleet at one moment: what every node reported, and what is held on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from llmgw_core.inventory.free import NOTHING, Free
from llmgw_core.inventory.holding import Holders, by_node, remaining
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.inventory.ranking import Ranking
from llmgw_core.spec.node import FabricPort, Gpu, NodeReport
from llmgw_core.spec.shard import Shard

Known = tuple[NodeReport, tuple[Shard, ...], Free]
"""What is free on a node, with what it was worked out from; shared by inventories that differ little."""


@dataclass(frozen=True)
class Inventory:
    """Nodes by name, and every shard that still holds resources.

    `held` comes from intents and reports alike; a shard that both name counts once. `confirmed` are weak
    fabric keys of which the operator said that they are one fabric. What the same snapshot is asked never
    changes: a new pass builds a new one.
    """

    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    held: tuple[Shard, ...] = ()
    confirmed: frozenset[str] = frozenset()

    def held_on(self, node: str) -> tuple[Shard, ...]:
        """The shards that hold something on a node, in the order of their ids."""
        return self._by_node.get(node, ())

    def used_by(self, node: str, gpu: Gpu) -> Shard | None:
        """The shard that holds a GPU of that node.

        The driver's UUID decides and, since a report may follow a renumbering, the index as well.
        """
        return Holders(self.held_on(node)).of(gpu)

    def free(self, node: str) -> Free:
        """What can still be handed out on a node; nothing where no report is known."""
        found = self._free.get(node)
        if found is None:
            view = self.nodes.get(node)
            report = view.report if view else None
            found = self._free[node] = self._remaining(node, report) if report else NOTHING
        return found

    def is_certain(self, port: FabricPort) -> bool:
        """Whether an equal key on another node proves that the two ports reach each other."""
        if port.fabric is None:
            return False
        return port.fabric_strength in ("label", "strong") or port.fabric in self.confirmed

    @cached_property
    def fabrics(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the nodes that are attached to each fabric whose key is certain, usable or not."""
        found: dict[str, list[str]] = {}
        for name in sorted(self.nodes):
            report = self.nodes[name].report
            ports = report.fabric_ports if report else ()
            for key in {port.fabric for port in ports if port.fabric and self.is_certain(port)}:
                found.setdefault(key, []).append(name)
        return {key: tuple(found[key]) for key in sorted(found)}

    @cached_property
    def ranking(self) -> Ranking:
        """The nodes that have reported, the fullest first."""
        return Ranking.of({name: self.free(name) for name, view in self.nodes.items() if view.report})

    def holding(self, *shards: Shard) -> Inventory:
        """This inventory when these shards hold something too."""
        nodes = {shard.node for shard in shards}
        own = by_node((*(one for node in sorted(nodes) for one in self.held_on(node)), *shards))
        return self._after(self.nodes, self.held + shards, own)

    def without(self, replica: str) -> Inventory:
        """This inventory when nothing of a replica holds anything."""
        gone = {shard.node for shard in self.held if shard.replica == replica}
        own = {node: tuple(one for one in self.held_on(node) if one.replica != replica) for node in gone}
        return self._after(self.nodes, tuple(one for one in self.held if one.replica != replica), own)

    def seeing(self, view: NodeView) -> Inventory:
        """This inventory when a node is as `view` has it."""
        own = {view.name: self.held_on(view.name)}
        return self._after({**self.nodes, view.name: view}, self.held, own)

    def following(self, before: Inventory) -> Inventory:
        """This inventory, with what is known of nodes on which nothing has changed since `before`."""
        known = {name: before._known[name] for name in self.nodes if name in before._known}
        return self._knowing(known)

    def only(self, names: Iterable[str]) -> Inventory:
        """The part of this inventory that concerns these nodes."""
        kept = {name: self.nodes[name] for name in sorted(set(names)) if name in self.nodes}
        part = Inventory(kept, tuple(one for name in kept for one in self.held_on(name)), self.confirmed)
        return part.following(self)

    def _knowing(self, known: dict[str, Known]) -> Inventory:
        other = Inventory(self.nodes, self.held, self.confirmed)
        other.__dict__["_known"] = known
        return other

    def _after(
        self,
        nodes: Mapping[str, NodeView],
        held: tuple[Shard, ...],
        own: Mapping[str, tuple[Shard, ...]],
    ) -> Inventory:
        # `own` are the shards of the nodes that changed. What is known of all others is handed on, so that
        # a change costs as much as it changes.
        after = Inventory(nodes, held, self.confirmed)._knowing(self._known)
        shards = dict(self._by_node)
        shards.update(own)
        after.__dict__["_by_node"] = shards
        if "ranking" in self.__dict__:
            ranking = self.ranking
            for name in sorted(own):
                ranking = ranking.changed(name, _ranked(self, name), _ranked(after, name))
            after.__dict__["ranking"] = ranking
        if nodes is self.nodes and "fabrics" in self.__dict__:
            after.__dict__["fabrics"] = self.fabrics
        return after

    @cached_property
    def _by_node(self) -> Mapping[str, tuple[Shard, ...]]:
        return by_node(self.held)

    @cached_property
    def _free(self) -> dict[str, Free]:
        return {}

    @cached_property
    def _known(self) -> dict[str, Known]:
        return {}

    def _remaining(self, node: str, report: NodeReport) -> Free:
        shards = self.held_on(node)
        known = self._known.get(node)
        if known is None or known[0] is not report or known[1] != shards:
            known = self._known[node] = report, shards, remaining(report, shards)
        return known[2]


def _ranked(inventory: Inventory, name: str) -> Free | None:
    view = inventory.nodes.get(name)
    return inventory.free(name) if view and view.report else None
