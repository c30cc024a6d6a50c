"""Which ports are rails, that is, meant for the traffic between GPUs, and why each other one is not."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
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
    candidates = [port for port in ports if _is_candidate(port)]
    cards = {port.adapter.card for port in candidates if _beside(port, candidates) is None} - {""}
    return tuple(_verdict(port, candidates, cards) for port in ports)


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


def _verdict(port: Port, candidates: Sequence[Port], cards: Set[str]) -> tuple[Reason, ...]:
    """All reasons against a port, not the first alone: the operator may overrule what is an opinion."""
    if blocked := _blocked(port, cards):
        return (blocked,)
    role = _role(port) or _beside(port, candidates)
    opinion = (Reason(code="not_a_rail", text=role),) if role else ()
    missing = _missing_gid(port)
    return (*opinion, Reason(code="no_gid", text=missing)) if missing else opinion


def _is_candidate(port: Port) -> bool:
    """Whether a port is a rail unless its peers tell otherwise; with an unread GID table it still counts."""
    known_without = port.gids is not None and _missing_gid(port) is not None
    return not (_blocked(port, frozenset()) or _role(port) or known_without)


def _blocked(port: Port, cards: Set[str]) -> Reason | None:
    """Why a port cannot carry anything of NCCL's; `cards` are the types of the rails' cards."""
    if not port.readable:
        return Reason(code="unreadable", text="neither sysfs nor ibstat tells its state and link layer")
    if foreign := _foreign(port.adapter):
        return Reason(code="other_link_layer", text=foreign)
    if link_layer(port) == "other":
        return Reason(code="other_link_layer", text=f"its link layer is {port.link_layer}")
    return None if port.active else Reason(code="down", text=_down(port, cards))


def _missing_gid(port: Port) -> str | None:
    """Why RoCE has no address to send from."""
    if link_layer(port) != "roce" or port.routable_gid:
        return None
    if port.gids is None:
        return "its GID table cannot be read"
    return "no RoCE v2 entry with an IPv4 address in this network namespace"


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


def _beside(port: Port, candidates: Sequence[Port]) -> str | None:
    """Why a port is no rail, given the candidates: Ethernet beside InfiniBand, or slower than its peers.

    The other kind of link is for storage or the way out, and NCCL stops when a pair is of both kinds.
    InfiniBand ports are not compared by rate: what is slower may be a fabric of its own.
    """
    if link_layer(port) == "infiniband":
        return None
    if any(link_layer(other) == "infiniband" for other in candidates):
        return "Ethernet on a node whose rails are InfiniBand"
    fastest = max((other.rate_gbps for other in candidates), default=0.0)
    slower = port.rate_gbps < fastest
    return f"{port.rate_gbps:g} Gb/s on a node whose rails have {fastest:g}" if slower else None


def _down(port: Port, cards: Set[str]) -> str:
    """A port that is down counts as a missing rail when its card is of the same type as the rails' cards."""
    words = {1: "down", 2: "initializing", 3: "armed, and waits for its subnet manager", 5: "deferred"}
    state = words.get(port.state or 0, f"in state {port.state}")
    text = f"the port is {state}" + (f" ({port.physical_state})" if port.physical_state else "")
    if port.adapter.card not in cards:
        return text
    return f"{text}; its card is of the rails' type ({port.adapter.card}), so a rail is missing"
