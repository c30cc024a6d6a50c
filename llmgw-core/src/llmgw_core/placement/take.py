"""What a replica gets of the nodes that were chosen for it."""

from __future__ import annotations

from typing import Literal

from llmgw_core.placement.asked import Room, Wanted
from llmgw_core.placement.gpus import choose_gpus
from llmgw_core.placement.ports import choose_ports
from llmgw_core.placement.result import NodePlacement
from llmgw_core.spec.node import FabricPort
from llmgw_core.spec.shard import GpuRef, HcaRef


def take(wanted: Wanted, room: Room, *, rank: int = 0, link_layer: str = "") -> NodePlacement:
    """What one rank gets of a node that passed every filter.

    Its adapters are all free ones of that link layer on the fabric of the room: a report does not tell
    which of them are near to which GPU.
    """
    profile = wanted.profile
    gpus = choose_gpus(profile, room)
    ports = choose_ports(wanted, room.free.ports, rank)
    if gpus is None or ports is None:
        raise AssertionError(f"{room.name} passed the filters but cannot take {profile.name}")
    rails = tuple(port for port in room.rails if link_layer in ("", port.link_layer))
    held = rails if wanted.uses_fabric else ()
    return NodePlacement(
        node=room.name,
        address=room.report.address,
        gpus=tuple(GpuRef(index=gpu.index, uuid=gpu.uuid) for gpu in gpus),
        cpus=profile.cpus,
        memory_mib=profile.memory_mib,
        http_port=ports.http,
        rendezvous_port=ports.rendezvous,
        extra_ports=ports.extra,
        fabric=room.fabric,
        fabric_strength=_strength(rails),
        hca_ports=tuple(HcaRef(device=port.device, port=port.port) for port in held),
    )


def _strength(rails: tuple[FabricPort, ...]) -> Literal["label", "strong", "weak"] | None:
    """How sure it is that the ports are on one fabric: as sure as of the least certain one."""
    known = {port.fabric_strength for port in rails}
    order: tuple[Literal["weak", "strong", "label"], ...] = ("weak", "strong", "label")
    return next((strength for strength in order if strength in known), None)
