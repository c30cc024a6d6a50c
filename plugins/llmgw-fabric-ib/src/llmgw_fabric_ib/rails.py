"""Which ports are rails, that is, meant for the traffic between GPUs, and why each other one is not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from llmgw_core.spec import Reason

from llmgw_fabric_ib.adapter import Adapter, Port

__all__ = ["LinkLayer", "judge", "link_layer"]

LinkLayer = Literal["infiniband", "roce", "other"]
_FOREIGN = {
    "hfi1": "Omni-Path: NCCL reaches it through PSM or OFI, not through verbs",
    "efa": "EFA: needs the OFI plugin of its vendor, and is never listed in NCCL_IB_HCA",
    "i40iw": "iWARP: NCCL does not use it",
    "cxgb": "iWARP: NCCL does not use it",
    "iw_cxgb": "iWARP: NCCL does not use it",
    "siw": "iWARP in software: NCCL does not use it",
    "usnic": "usNIC: NCCL does not use it",
}
"""What the driver or the adapter's name begins with. The link layer tells nothing here: Omni-Path and
recorded iWARP cards say InfiniBand."""
_FOREIGN_START = re.compile("|".join(_FOREIGN))
_CHANNEL_ADAPTER = 1


def judge(ports: Sequence[Port]) -> tuple[tuple[Reason, ...], ...]:
    """For each port the reasons why it cannot be used; a usable rail has none."""
    alone = [_alone(port) for port in ports]
    candidates = [port for port, reason in zip(ports, alone, strict=True) if reason is None]
    rails = [port for port in candidates if _beside(port, candidates) is None]
    verdicts = (
        _missing_rail(port, rails) or reason or _beside(port, candidates) or _unknown_gids(port)
        for port, reason in zip(ports, alone, strict=True)
    )
    return tuple((reason,) if reason else () for reason in verdicts)


def link_layer(port: Port) -> LinkLayer:
    """What the port is to NCCL: `other` also for an adapter that is not reached through verbs."""
    if _foreign(port.adapter):
        return "other"
    layers: dict[str | None, LinkLayer] = {"InfiniBand": "infiniband", "Ethernet": "roce"}
    return layers.get(port.link_layer, "other")


def _foreign(adapter: Adapter) -> str | None:
    for text in (adapter.driver or "", adapter.name):
        if start := _FOREIGN_START.match(text):
            return _FOREIGN[start[0]]
    if adapter.node_type in {None, _CHANNEL_ADAPTER}:
        return None
    return f"its node type is {adapter.node_type}; only channel adapters (1) are used"


def _alone(port: Port) -> Reason | None:
    """Why a port is no candidate, whatever else the node has."""
    if not port.readable:
        return Reason(code="unreadable", text="neither sysfs nor ibstat tells its state and link layer")
    if foreign := _foreign(port.adapter):
        return Reason(code="other_link_layer", text=foreign)
    if link_layer(port) == "other":
        return Reason(code="other_link_layer", text=f"its link layer is {port.link_layer}")
    if not port.active:
        return Reason(code="down", text=_down(port))
    if role := _role(port):
        return Reason(code="not_a_rail", text=role)
    if link_layer(port) == "roce" and port.gids is not None and port.routable_gid is None:
        return Reason(code="no_gid", text="no RoCE v2 entry with an IPv4 address in this network namespace")
    return None


def _role(port: Port) -> str | None:
    """What the adapter is there for, if not for traffic between GPUs."""
    adapter = port.adapter
    if adapter.software:
        return "it is emulated in software"
    if adapter.manages_nvswitch:
        return "it manages the NVSwitches of the board"
    if re.fullmatch(r"smi\d+", adapter.name, re.ASCII):
        return "it is the management device of its card"
    if adapter.physical_function:
        # NCCL takes both for two ports of one card, merges them, and fails.
        return f"a virtual function of {adapter.physical_function}, which is visible too"
    if link_layer(port) == "roce" and not _is_mellanox(adapter):
        driver = adapter.driver or "an unknown driver"
        return f"RoCE of {driver} is used only where the agent's config labels it"
    return None


def _is_mellanox(adapter: Adapter) -> bool:
    # udev may rename mlx5_0 to rocep1s0f0; driver and card type stay.
    names = (adapter.driver or "", adapter.name)
    return any(name.startswith("mlx") for name in names) or bool(re.match(r"MT\d", adapter.card))


def _beside(port: Port, candidates: Sequence[Port]) -> Reason | None:
    """Why a candidate is no rail, given the others: Ethernet beside InfiniBand, or slower than its peers.

    The other kind of link is for storage or the way out, and NCCL stops when a pair is of both kinds.
    InfiniBand ports are not compared by rate: what is slower may be a fabric of its own.
    """
    if link_layer(port) == "infiniband":
        return None
    if any(link_layer(other) == "infiniband" for other in candidates):
        return Reason(code="not_a_rail", text="Ethernet on a node whose rails are InfiniBand")
    fastest = max(other.rate_gbps for other in candidates)
    if port.rate_gbps < fastest:
        text = f"{port.rate_gbps:g} Gb/s on a node whose rails have {fastest:g}"
        return Reason(code="not_a_rail", text=text)
    return None


def _unknown_gids(port: Port) -> Reason | None:
    if link_layer(port) == "roce" and port.gids is None:
        return Reason(code="no_gid", text="its GID table cannot be read")
    return None


def _missing_rail(port: Port, rails: Sequence[Port]) -> Reason | None:
    """A port that is down counts as a missing rail when its card is of the same type as the rails' cards."""
    down = port.readable and not port.active and link_layer(port) != "other"
    if down and port.adapter.card and any(rail.adapter.card == port.adapter.card for rail in rails):
        text = f"{_down(port)}; its card is of the rails' type ({port.adapter.card}), so a rail is missing"
        return Reason(code="down", text=text)
    return None


def _down(port: Port) -> str:
    words = {1: "down", 2: "initializing", 3: "armed, and waits for its subnet manager", 5: "deferred"}
    state = words.get(port.state or 0, f"in state {port.state}")
    return f"the port is {state}" + (f" ({port.physical_state})" if port.physical_state else "")
