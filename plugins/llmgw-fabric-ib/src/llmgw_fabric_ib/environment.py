"""The environment that makes collective libraries use exactly the chosen ports."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network

from llmgw_core.spec import FabricPort, Unsupported

__all__ = ["environment"]


def environment(ports: Sequence[FabricPort], interface: str | None) -> Mapping[str, str]:
    """Variables for these ports; none for no ports. `interface` carries the control traffic.

    Ports of another kind belong to another plugin, and are left to it. Raises Unsupported for ports that no
    process can use together, or that are not usable any more: NCCL would pass over them in silence.
    """
    own = tuple(port for port in ports if port.link_layer != "other")
    return _environment(own, interface) if own else {}


def _environment(ports: Sequence[FabricPort], interface: str | None) -> Mapping[str, str]:
    _check(ports)
    names = [f"{port.device}:{port.port}" for port in ports]
    return {
        # Without `=` an entry is a prefix: mlx5_1 would take mlx5_10 to mlx5_19 too.
        "NCCL_IB_HCA": "=" + ",".join(names),
        # Fail, rather than fall back to sockets without a word, when none of them can be opened.
        "NCCL_NET": "IB",
        "UCX_NET_DEVICES": ",".join([*names, interface] if interface else names),
        **(_addresses(ports) if ports[0].link_layer == "roce" else {}),
        **(_control(interface) if interface else {}),
    }


def _check(ports: Sequence[FabricPort]) -> None:
    for port in ports:
        name = f"{port.device}:{port.port}"
        if not port.usable:
            why = "; ".join(reason.text or reason.code for reason in port.reasons)
            raise Unsupported("hca_ports", f"{name} cannot be used: {why}")
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", port.device):
            raise Unsupported("hca_ports", f"{name!r} cannot be named to NCCL")
    if len({port.link_layer for port in ports}) > 1:
        raise Unsupported("hca_ports", "InfiniBand and RoCE ports cannot be used together; NCCL stops")


def _addresses(ports: Sequence[FabricPort]) -> Mapping[str, str]:
    """Which GID to use on RoCE; NCCL before 2.21 takes entry 0, a link-local one that does not route.

    The index is one for the whole process, so it is only given where all ports share it; otherwise NCCL
    chooses by the network. With neither, what NCCL 2.21 and later choose by themselves is right.
    """
    indices = {port.gid_index for port in ports}
    if len(indices) == 1 and None not in indices:
        return {"NCCL_IB_GID_INDEX": str(ports[0].gid_index)}
    networks = [IPv4Network(port.network) for port in ports if port.network]
    return {"NCCL_IB_ADDR_RANGE": str(_covering(networks))} if len(networks) == len(ports) else {}


def _covering(networks: Sequence[IPv4Network]) -> IPv4Network:
    """The smallest network that holds all: where every rail has one of its own, only one can be named."""
    wide = networks[0]
    while not all(network.subnet_of(wide) for network in networks):
        wide = wide.supernet()
    return wide


def _control(interface: str) -> Mapping[str, str]:
    """Gloo and TensorPipe take one exact name, and die of NCCL's syntax or of an address."""
    return {
        "NCCL_SOCKET_IFNAME": f"={interface}",
        "GLOO_SOCKET_IFNAME": interface,
        "TP_SOCKET_IFNAME": interface,
    }
