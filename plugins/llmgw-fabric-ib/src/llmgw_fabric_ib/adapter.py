"""What is known of an adapter and of its ports, from whatever source; nothing here is judged yet."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

__all__ = ["ACTIVE", "Adapter", "Gid", "Port"]

ACTIVE = 4
"""The only state in which a port carries traffic; 1 is down, 2 init, 3 armed, 5 deferred."""


@dataclass(frozen=True)
class Adapter:
    """A device of /sys/class/infiniband. What could not be read is None or empty."""

    name: str
    driver: str | None = None
    """The driver of its PCI function, like `mlx5_core`."""
    node_type: int | None = None
    """1 is a channel adapter, 4 an iWARP NIC, 5 and 6 usNIC, 7 none of these (EFA)."""
    card: str = ""
    """Type of card, like `MT4129`: equal on ports that are cabled for the same purpose."""
    physical_function: str | None = None
    """The adapter of which this one is a virtual function, where both are visible."""
    software: bool = False
    """It has no hardware of its own (rxe, siw)."""
    manages_nvswitch: bool = False
    """A bridge to the NVSwitches of an HGX board, which looks like an InfiniBand adapter."""


@dataclass(frozen=True)
class Gid:
    """A used entry of a port's GID table."""

    index: int
    value: int
    """128 bits."""
    kind: str | None = None
    """`RoCE v2` or `IB/RoCE v1`; None where the kernel does not tell."""
    netdev: str | None = None

    @property
    def prefix(self) -> str:
        """The first 64 bits as sysfs writes them."""
        return ":".join(f"{self.value >> shift & 0xFFFF:04x}" for shift in (112, 96, 80, 64))

    @property
    def ipv4(self) -> IPv4Address | None:
        """The IPv4 address that the entry stands for."""
        return IPv6Address(self.value).ipv4_mapped


@dataclass(frozen=True)
class Port:
    """A port as its source tells it. `lid` and `sm_lid` are None where there is none (Ethernet)."""

    adapter: Adapter
    number: int
    state: int | None = None
    physical_state: str = ""
    link_layer: str | None = None
    """As the kernel writes it: `InfiniBand`, `Ethernet` or `Unknown`."""
    rate_gbps: float = 0.0
    """Means nothing while the port is not active: 400G ports that are down read 40."""
    lid: int | None = None
    sm_lid: int | None = None
    gids: tuple[Gid, ...] | None = None
    """None where the table cannot be read, which is another thing than an empty one."""
    netdev: str | None = None

    @property
    def key(self) -> tuple[str, int]:
        """What names a port on its node."""
        return self.adapter.name, self.number

    @property
    def readable(self) -> bool:
        """Whether its source told the two facts without which nothing can be said of it."""
        return self.state is not None and self.link_layer is not None

    @property
    def active(self) -> bool:
        """Whether it carries traffic."""
        return self.state == ACTIVE

    @property
    def subnet_prefix(self) -> str | None:
        """The InfiniBand subnet prefix; on Ethernet the same bits are a link-local address."""
        first = next((gid for gid in self.gids or () if gid.index == 0), None)
        return first.prefix if first and self.link_layer == "InfiniBand" else None

    @property
    def routable_gid(self) -> Gid | None:
        """The first RoCE v2 entry with an IPv4 address; autoconfigured addresses lead nowhere."""
        for gid in self.gids or ():
            address = gid.ipv4
            if gid.kind == "RoCE v2" and address and not (address.is_link_local or address.is_unspecified):
                return gid
        return None
