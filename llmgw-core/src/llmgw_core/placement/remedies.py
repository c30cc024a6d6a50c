"""What would have to change: single changes to the fleet, each tried on the inventory.

A change can only help where it is made, so it is tried on its node alone, together with those that share
a fabric with it when a profile takes several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from llmgw_core.catalog.model import Model
from llmgw_core.inventory.inventory import Inventory
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.spec.node import NodeReport
from llmgw_core.spec.placement import Rejection

MAX_LOOKS = 20_000
"""Nodes that may be looked at in all trials together: an explanation must come while a person waits."""
TRIAL = 20
"""What a trial costs apart from that, in looks."""
MAX_FOUND = 12
_FREED = frozenset({"free GPUs", "NVLink", "CPUs", "memory", "fabric", "ports"})
"""Constraints that the end of a replica can lift."""
_MENDABLE = frozenset({"down", "unreadable", "no_gid"})
"""Reasons of an adapter port that a repair could end; the others are what it is, or the operator's will."""


@dataclass(frozen=True)
class Change:
    """One thing that an operator could do, and the fleet after it."""

    words: str
    nodes: frozenset[str]
    made_in: Callable[[Inventory], Inventory]


def remedies(
    model: Model,
    inventory: Inventory,
    rejections: tuple[Rejection, ...],
    fits: Callable[[Inventory], bool],
) -> tuple[str, ...]:
    """Changes after any one of which the model would fit, like `uncordon node02`; the cheapest kind first."""
    looks = 0
    found: list[str] = []
    for change in _changes(model, inventory, rejections):
        around = _around(model, inventory, change.nodes)
        looks += TRIAL + len(around)
        if looks > MAX_LOOKS or len(found) == MAX_FOUND:
            break
        if fits(change.made_in(inventory.only(around))):
            found.append(change.words)
    return tuple(found)


def _around(model: Model, inventory: Inventory, nodes: frozenset[str]) -> frozenset[str]:
    spread = [profile for profile in model.profiles if profile.nodes > 1]
    if any(profile.gpus_per_node == 0 for profile in spread):
        return frozenset(inventory.nodes)
    fabrics = inventory.fabrics.values() if spread else ()
    return nodes.union(*(names for names in fabrics if nodes & set(names)))


def _changes(model: Model, inventory: Inventory, rejections: tuple[Rejection, ...]) -> Iterator[Change]:
    def rejected(constraints: frozenset[str]) -> list[NodeView]:
        """Nodes that fail first by one of these; another change than one that lifts it cannot help there."""
        names = dict.fromkeys(one.node for one in rejections if one.constraint in constraints)
        return [inventory.nodes[name] for name in names if name in inventory.nodes]

    for view in rejected(frozenset({"node state"})):
        if view.cordoned is not None:
            yield _seen(f"uncordon {view.name}", replace(view, cordoned=None))
    yield from _stops(inventory, rejected(_FREED))
    classes = {profile.gpu_class for profile in model.profiles}
    for view in rejected(frozenset({"free GPUs", "NVLink"})):
        yield from _gpu_repairs(view, classes)
    for view in rejected(frozenset({"fabric"})):
        yield from _port_repairs(view)


def _stops(inventory: Inventory, views: list[NodeView]) -> Iterator[Change]:
    holders = {shard.replica: shard for view in views for shard in inventory.held_on(view.name)}
    for replica, shard in sorted(holders.items(), key=lambda one: (one[1].model, one[0])):
        nodes = frozenset(peer.node for peer in shard.peers)
        yield Change(f"stop {shard.model}/{replica}", nodes, _without(replica))


def _without(replica: str) -> Callable[[Inventory], Inventory]:
    return lambda inventory: inventory.without(replica)


def _gpu_repairs(view: NodeView, classes: set[str | None]) -> Iterator[Change]:
    report = view.report
    for gpu in report.gpus if report else ():
        if report and not gpu.usable and gpu.gpu_class is not None and gpu.gpu_class in classes:
            mended = gpu.model_copy(update={"usable": True, "reasons": ()})
            gpus = tuple(mended if one is gpu else one for one in report.gpus)
            yield _reported(f"repair GPU {gpu.index} on {view.name}", view, report, {"gpus": gpus})


def _port_repairs(view: NodeView) -> Iterator[Change]:
    report = view.report
    for port in report.fabric_ports if report else ():
        codes = {reason.code for reason in port.reasons}
        if report and not port.usable and codes and codes <= _MENDABLE:
            mended = port.model_copy(update={"usable": True, "active": True, "reasons": ()})
            ports = tuple(mended if one is port else one for one in report.fabric_ports)
            words = f"repair {port.device}:{port.port} on {view.name}"
            yield _reported(words, view, report, {"fabric_ports": ports})


def _reported(words: str, view: NodeView, report: NodeReport, change: dict[str, object]) -> Change:
    return _seen(words, replace(view, report=report.model_copy(update=change)))


def _seen(words: str, view: NodeView) -> Change:
    return Change(words, frozenset({view.name}), lambda inventory: inventory.seeing(view))
