"""Ports of the node's range that somebody listens on: placement must not hand them out."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw_core.spec import HostView, PortRange

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN = "0A"


def busy_ports(host: HostView, ports: PortRange) -> tuple[int, ...]:
    """The listening ports of the range, sorted; what cannot be read is not busy.

    One address is as good as another: an engine that listens on every interface needs them all.
    """
    found = {port for table in _TABLES for port in _listening(host.read_text(table) or "")}
    return tuple(sorted(port for port in found if ports.first <= port <= ports.last))


def _listening(table: str) -> Iterator[int]:
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 3 and fields[3] == _LISTEN:
            try:
                yield int(fields[1].rpartition(":")[2], 16)
            except ValueError:
                continue
