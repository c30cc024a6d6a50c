"""The six hooks of an engine plugin; each hands over to the module that knows."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_core.spec import (
    HOOK_API,
    Command,
    EngineInfo,
    FlagTable,
    Launch,
    PluginInfo,
    ProbeResponse,
    Probes,
    Readiness,
    Shard,
    hookimpl,
)

from llmgw_sglang import command, info, probes, tables


@hookimpl
def llmgw_plugin_info() -> PluginInfo:
    """Who this plugin is."""
    return PluginInfo(
        name="sglang", kind="engine", api=HOOK_API, summary="SGLang: on GPUs or CPUs, on one node or several"
    )


@hookimpl
def llmgw_engine_info() -> EngineInfo:
    """Facts about SGLang."""
    return info.ENGINE


@hookimpl
def llmgw_engine_flags() -> tuple[FlagTable, ...]:
    """Every release that was looked at."""
    return tables.TABLES


@hookimpl
def llmgw_engine_commands(shard: Shard, launch: Launch) -> tuple[Command, ...]:
    """One process: `sglang serve`. Raises Unsupported for what it cannot do."""
    return (command.engine(shard, launch),)


@hookimpl
def llmgw_engine_probes(shard: Shard) -> Probes | None:
    """Requests for rank 0; None for a worker."""
    return probes.probes(shard)


@hookimpl
def llmgw_engine_ready(shard: Shard, responses: Mapping[str, ProbeResponse]) -> Readiness:
    """Ready only with health, the right name and one generated token."""
    return probes.judge(shard, responses)
