"""Which nodes may be joined to one replica: those of one fabric, and never those of two.

Nodes are only ever looked at within a group, so that no candidate can hold nodes of two.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmgw_core.inventory.inventory import Inventory
from llmgw_core.placement.asked import Room, Wanted
from llmgw_core.spec.node import FabricPort

NO_FABRIC = "no fabric"
"""Stands for the fabric of nodes without adapters, which CPU engines join over the management network."""


@dataclass(frozen=True)
class Group:
    """Nodes that may be joined, by name. `fabric` is None for nodes on none."""

    fabric: str | None
    nodes: tuple[str, ...]

    @property
    def title(self) -> str:
        """What explanations call it."""
        return self.fabric or NO_FABRIC


def groups_for(wanted: Wanted, inventory: Inventory) -> tuple[Group, ...]:
    """The groups of nodes that a profile over several nodes may choose from, by key.

    GPUs need a fabric that is certain. A CPU engine talks over addresses: nodes without any adapter, which
    no fabric can tell apart, may be joined too.
    """
    groups = [Group(key, nodes) for key, nodes in inventory.fabrics.items()]
    if wanted.profile.gpus_per_node == 0:
        islands = tuple(name for name in sorted(inventory.nodes) if _is_island(inventory, name))
        if islands:
            groups.append(Group(None, islands))
    return tuple(groups)


def _is_island(inventory: Inventory, name: str) -> bool:
    report = inventory.nodes[name].report
    return report is not None and not any(port.usable for port in report.fabric_ports)


def rails_of(wanted: Wanted, inventory: Inventory, name: str, fabric: str | None) -> tuple[FabricPort, ...]:
    """The usable ports of a node on a fabric; for a replica that would use them only those not held."""
    view = inventory.nodes[name]
    if fabric is None or view.report is None:
        return ()
    ports = inventory.free(name).hcas if wanted.uses_fabric else view.report.fabric_ports
    return tuple(
        port for port in ports if port.usable and port.fabric == fabric and inventory.is_certain(port)
    )


def why_no_rail(room: Room) -> tuple[str, str]:
    """What a node has in place of a free port on the fabric of the room, and more about it."""
    if room.fabric is not None:
        ports = [port for port in room.report.fabric_ports if port.fabric == room.fabric]
        return "none", "; ".join(_state(room, port) for port in ports)
    keys = sorted({port.fabric for port in room.report.fabric_ports if port.fabric})
    if keys:
        return "a weak key", f"{', '.join(keys)}: label it under `fabrics` in agent.yaml if it is one network"
    ports_seen = "; ".join(_state(room, port) for port in room.report.fabric_ports)
    return "none", ports_seen or "no adapter was found"


def _state(room: Room, port: FabricPort) -> str:
    name = f"{port.device}:{port.port}"
    holder = room.free.held_hcas.get((port.device, port.port))
    if holder is not None:
        return f"{name} held by {holder.model}/{holder.replica}"
    if port.usable:
        return f"{name} on a weak key"
    return f"{name} {', '.join(r.text or r.code.replace('_', ' ') for r in port.reasons) or 'not usable'}"
