"""The InfiniBand and RoCE fabric driver of llmgw: finds the adapters of a node, and names them to NCCL."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_core.spec import HOOK_API, FabricPort, HostView, Launch, PluginInfo, hookimpl

from llmgw_fabric_ib.discovery import discover
from llmgw_fabric_ib.environment import environment


@hookimpl
def llmgw_plugin_info() -> PluginInfo:
    """Say who the plugin is."""
    return PluginInfo(
        name="fabric-ib", kind="fabric", api=HOOK_API, summary="InfiniBand and RoCE adapters, from sysfs"
    )


@hookimpl
def llmgw_fabric_discover(host: HostView) -> tuple[FabricPort, ...]:
    """List every port of every adapter, usable or not, each with its reasons."""
    return discover(host)


@hookimpl
def llmgw_fabric_env(ports: tuple[FabricPort, ...], launch: Launch) -> Mapping[str, str]:
    """Give the variables that make NCCL and UCX use exactly these ports; none for no ports.

    Raises Unsupported for ports that cannot be used, or not together.
    """
    return environment(ports, launch.interface)
