"""The six hooks of an engine plugin; each hands over to the module that knows.

They are not in the package's `__init__`, because the embedded engine (`python -m llmgw_llamacpp.launcher`)
imports that: with the contract and pydantic in it, every engine would be 27 MiB larger and slower to start.
"""

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

from llmgw_llamacpp import command, info, probes, tables


@hookimpl
def llmgw_plugin_info() -> PluginInfo:
    """Who this plugin is."""
    return PluginInfo(
        name="llamacpp",
        kind="engine",
        api=HOOK_API,
        summary="llama.cpp: GGUF models on CPUs or the GPUs of one node",
    )


@hookimpl
def llmgw_engine_info() -> EngineInfo:
    """Facts about llama-server and its embedded look-alike."""
    return info.ENGINE


@hookimpl
def llmgw_engine_flags() -> tuple[FlagTable, ...]:
    """Every build that was recorded or read."""
    return tables.TABLES


@hookimpl
def llmgw_engine_commands(shard: Shard, launch: Launch) -> tuple[Command, ...]:
    """One process: llama-server. Raises Unsupported for what it cannot do."""
    return (command.engine(shard, launch),)


@hookimpl
def llmgw_engine_probes(shard: Shard) -> Probes | None:
    """Requests that fit the kind of the model."""
    return probes.probes(shard)


@hookimpl
def llmgw_engine_ready(shard: Shard, responses: Mapping[str, ProbeResponse]) -> Readiness:
    """Ready only with health, the right name and one generated token."""
    return probes.judge(shard, responses)
