"""Reads adapters and ports from /sys/class/infiniband. Whatever cannot be read is left out, never raised.

An entry may vanish between listing and reading (a driver reload, a removed virtual function), and reading the
type of an unused GID fails with EINVAL, so every file may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from llmgw_core.spec import HostView

from llmgw_fabric_ib.adapter import Adapter, Gid, Port

__all__ = ["CLASS", "class_is_hidden", "read_ports"]

CLASS = "/sys/class/infiniband"
_VIRTUAL = "/sys/devices/virtual/infiniband"
_NET = "/sys/class/net"
_DEFAULT_PREFIX = 0xFE80 << 112


def read_ports(host: HostView) -> tuple[Port, ...]:
    """Every port of every adapter; one whose files cannot be read is there, and not `readable`."""
    software = host.list_dir(_VIRTUAL) or ()
    names = host.list_dir(CLASS) or ()
    return tuple(port for name in names for port in _ports(host, _adapter(host, name, software)))


def class_is_hidden(host: HostView) -> bool:
    """Whether there are adapters that may not be listed, as in a container with a masked sysfs."""
    return host.list_dir(CLASS) is None and "infiniband" in (host.list_dir("/sys/class") or ())


def _adapter(host: HostView, name: str, software: Sequence[str]) -> Adapter:
    base = f"{CLASS}/{name}"
    driver = re.search(r"^DRIVER=(\S+)", host.read_text(f"{base}/device/uevent") or "", re.MULTILINE)
    parents = host.list_dir(f"{base}/device/physfn/infiniband")
    return Adapter(
        name=name,
        driver=driver[1] if driver else None,
        node_type=_number(host, f"{base}/node_type"),
        card=_text(host, f"{base}/hca_type") or "",
        physical_function=parents[0] if parents else None,
        software=name in software,
        # Readable for root only. Fabric Manager tells its bridges from common ConnectX-7 cards by this word.
        manages_nvswitch="SW_MNG" in (host.read_text(f"{base}/device/vpd") or ""),
    )


def _ports(host: HostView, adapter: Adapter) -> tuple[Port, ...]:
    base = f"{CLASS}/{adapter.name}"
    numbers = _indices(host.list_dir(f"{base}/ports"))
    if not numbers:
        return (Port(adapter=adapter, number=1),)
    return tuple(_port(host, adapter, number) for number in numbers)


def _port(host: HostView, adapter: Adapter, number: int) -> Port:
    base = f"{CLASS}/{adapter.name}/ports/{number}"
    link_layer = _text(host, f"{base}/link_layer")
    rate = re.match(r"(\d{1,6}(?:\.\d{1,3})?) *Gb/sec", _text(host, f"{base}/rate") or "", re.ASCII)
    physical = (_text(host, f"{base}/phys_state") or "").partition(":")[2].strip()
    return Port(
        adapter=adapter,
        number=number,
        state=_number(host, f"{base}/state"),
        physical_state=physical,
        link_layer=link_layer,
        rate_gbps=float(rate[1]) if rate else 0.0,
        lid=_lid(host, f"{base}/lid"),
        sm_lid=_lid(host, f"{base}/sm_lid"),
        # The fabric of an InfiniBand port is in its first entry; the rest of the table is long and empty.
        gids=_gids(host, base, first_only=link_layer == "InfiniBand"),
        netdev=_netdev(host, adapter.name, number),
    )


def _gids(host: HostView, base: str, first_only: bool) -> tuple[Gid, ...] | None:
    names = host.list_dir(f"{base}/gids")
    if names is None:
        return None
    indices = _indices(names)
    found = (_gid(host, base, index) for index in (indices[:1] if first_only else indices))
    return tuple(gid for gid in found if gid)


def _gid(host: HostView, base: str, index: int) -> Gid | None:
    text = _text(host, f"{base}/gids/{index}") or ""
    if not re.fullmatch(r"[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){7}", text):
        return None
    value = int(text.replace(":", ""), 16)
    if value in {0, _DEFAULT_PREFIX}:
        return None
    kind = _text(host, f"{base}/gid_attrs/types/{index}")
    return Gid(index=index, value=value, kind=kind, netdev=_text(host, f"{base}/gid_attrs/ndevs/{index}"))


def _netdev(host: HostView, device: str, number: int) -> str | None:
    """The network interface of the port: of the same PCI function, and of the same port of it."""
    names = host.list_dir(f"{CLASS}/{device}/device/net") or ()
    if len(names) == 1:
        return names[0]
    return next((name for name in names if _port_of(host, name) == number - 1), None)


def _port_of(host: HostView, netdev: str) -> int | None:
    # Before Linux 3.15 the number was in dev_id; drivers that fill in only one leave 0 in the other.
    port = _number(host, f"{_NET}/{netdev}/dev_port")
    identity = re.fullmatch(r"0x([0-9a-fA-F]{1,4})", _text(host, f"{_NET}/{netdev}/dev_id") or "")
    return port or (int(identity[1], 16) if identity else port)


def _text(host: HostView, path: str) -> str | None:
    """The text of a file without the line ends, of which there may be none or two; None for nothing."""
    return (host.read_text(path) or "").strip() or None


def _number(host: HostView, path: str) -> int | None:
    """The number that a file begins with, like the 4 of `4: ACTIVE`."""
    found = re.match(r"(\d{1,9})(?!\d)", _text(host, path) or "", re.ASCII)
    return int(found[1]) if found else None


def _lid(host: HostView, path: str) -> int | None:
    """0 is no lid, as on Ethernet; 0xffff is one of a port that never came up."""
    found = re.fullmatch(r"0x([0-9a-fA-F]{1,8})", _text(host, path) or "")
    lid = int(found[1], 16) if found else 0
    return lid if 0 < lid < 0xFFFF else None


def _indices(names: Sequence[str] | None) -> list[int]:
    return sorted(int(name) for name in names or () if re.fullmatch(r"\d{1,5}", name, re.ASCII))
