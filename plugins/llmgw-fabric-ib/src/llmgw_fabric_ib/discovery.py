"""From what sysfs tells to the ports that the scheduler sees."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network

from llmgw_core.spec import FabricPort, HostView, Reason

from llmgw_fabric_ib import ibstat
from llmgw_fabric_ib.adapter import Port
from llmgw_fabric_ib.identity import identify
from llmgw_fabric_ib.network import connected_network
from llmgw_fabric_ib.rails import judge, link_layer
from llmgw_fabric_ib.sysfs import class_is_hidden, read_ports

__all__ = ["discover"]


def discover(host: HostView) -> tuple[FabricPort, ...]:
    """Every port of the node, usable or not, each with its reasons; never raises for what is broken."""
    ports = _facts(host)
    verdicts = judge(ports)
    return tuple(
        _fabric_port(port, _network(host, port), ports, reasons)
        for port, reasons in zip(ports, verdicts, strict=True)
    )


def _facts(host: HostView) -> tuple[Port, ...]:
    """From sysfs, which has everything and needs no rights; ibstat is asked where sysfs is not readable."""
    if class_is_hidden(host):
        return ibstat.ask(host)
    ports = read_ports(host)
    if all(port.readable for port in ports):
        return ports
    return ibstat.merged(ports, ibstat.ask(host))


def _network(host: HostView, port: Port) -> IPv4Network | None:
    gid = port.routable_gid
    if gid is None or gid.ipv4 is None:
        return None
    return connected_network(host, gid.ipv4, gid.netdev or port.netdev)


def _fabric_port(
    port: Port, network: IPv4Network | None, ports: Sequence[Port], reasons: tuple[Reason, ...]
) -> FabricPort:
    layer = link_layer(port)
    gid = port.routable_gid if layer == "roce" else None
    identity = identify(port, network, ports)
    return FabricPort(
        device=port.adapter.name,
        port=port.number,
        link_layer=layer,
        active=port.active,
        rate_gbps=port.rate_gbps if port.active else 0.0,
        # Of a bond, the PCI function only has the slaves; the entry's own interface is the bond.
        netdev=gid.netdev if gid and gid.netdev else port.netdev,
        gid_index=gid.index if gid else None,
        network=str(network) if network else None,
        subnet_prefix=port.subnet_prefix if layer == "infiniband" else None,
        fabric=identity.key,
        fabric_strength=identity.strength,
        usable=not reasons,
        reasons=reasons,
    )
