"""Which fabric a port is on, and how sure that is.

Strong: an InfiniBand subnet prefix that somebody chose. Weak: the default prefix, which most sites never
change, so that two separate fabrics carry the same; and an IPv4 network, since private networks are numbered
alike everywhere. Nodes are not joined on a weak key without the operator's word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Literal

from llmgw_fabric_ib.adapter import Port
from llmgw_fabric_ib.rails import link_layer

__all__ = ["UNKNOWN", "Identity", "identify"]

_DEFAULT_PREFIX = "fe80:0000:0000:0000"


@dataclass(frozen=True)
class Identity:
    """The key of a fabric and its strength; both None when nothing can be said."""

    key: str | None = None
    strength: Literal["strong", "weak"] | None = None


UNKNOWN = Identity()


def identify(port: Port, network: IPv4Network | None, ports: Sequence[Port]) -> Identity:
    """The fabric of an active port, among all `ports` of its node; `network` is that of its RoCE address."""
    if not port.active or link_layer(port) == "other":
        return UNKNOWN
    if link_layer(port) == "roce":
        return Identity(f"roce:{network}", "weak") if network else UNKNOWN
    own = _subnet(port)
    if own.key is None or _is_two_subnets([other for other in ports if _subnet(other) == own]):
        return UNKNOWN
    return own


def _subnet(port: Port) -> Identity:
    prefix = port.subnet_prefix
    if prefix is None or not port.active or link_layer(port) != "infiniband":
        return UNKNOWN
    if prefix != _DEFAULT_PREFIX:
        return Identity(f"ib:{prefix}", "strong")
    return Identity(f"ib:{prefix}" + (f"/sm:{port.sm_lid}" if port.sm_lid else ""), "weak")


def _is_two_subnets(ports: Sequence[Port]) -> bool:
    """Whether two ports bear one lid: a lid is unique in its subnet, so the key stands for two subnets."""
    lids = [port.lid for port in ports if port.lid is not None]
    return len(set(lids)) < len(lids)
