"""The InfiniBand and RoCE fabric driver of llmgw: does not look for adapters yet."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_core.spec import HOOK_API, FabricPort, PluginInfo, Unsupported, hookimpl


@hookimpl
def llmgw_plugin_info() -> PluginInfo:
    """Say who the plugin is."""
    return PluginInfo(
        name="fabric-ib",
        kind="fabric",
        api=HOOK_API,
        summary="InfiniBand and RoCE: no discovery yet, every node counts as an island",
    )


@hookimpl
def llmgw_fabric_discover() -> tuple[FabricPort, ...]:
    """List no port: without one a node is an island, which is the safe thing to believe of it."""
    return ()


@hookimpl
def llmgw_fabric_env(ports: tuple[FabricPort, ...]) -> Mapping[str, str]:
    """Give no variables for no ports. Raises Unsupported for ports, which this release never found."""
    if ports:
        raise Unsupported("fabric", "llmgw-fabric-ib has no environment for adapters yet")
    return {}
