"""The IPv4 network of an address of this node, by the routes that are connected to its interface."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network

from llmgw_core.spec import HostView

__all__ = ["connected_network"]

_ROUTES = "/proc/net/route"
_ROW = re.compile(
    r"(\S+)\s+([0-9A-F]{8})\s+([0-9A-F]{8})\s+[0-9A-F]+\s+\d+\s+\d+\s+\d+\s+([0-9A-F]{8})\b", re.A
)


def connected_network(host: HostView, address: IPv4Address, netdev: str | None) -> IPv4Network | None:
    """The most exact network on `netdev` that holds `address`; None when no route tells it.

    Of a /32 there is no such route, and a routed fabric is one fabric with many networks: unknown, then.
    """
    if netdev is None:
        return None
    rows = (_ROW.match(line) for line in (host.read_text(_ROUTES) or "").splitlines())
    networks = [_network(row[2], row[4]) for row in rows if row and row[1] == netdev and int(row[3], 16) == 0]
    holding = [network for network in networks if network and network.prefixlen and address in network]
    return max(holding, key=lambda network: network.prefixlen, default=None)


def _network(destination: str, mask: str) -> IPv4Network | None:
    try:
        return IPv4Network((_bytes(destination), str(IPv4Address(_bytes(mask)))))
    except ValueError:
        return None


def _bytes(word: str) -> bytes:
    # The kernel prints the network-order word as a number of the machine, and GPU machines are little-endian.
    return bytes.fromhex(word)[::-1]
