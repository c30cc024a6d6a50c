"""The hooks of a llmgw plugin, and the two markers: the only names of pluggy that a plugin needs.

Hooks are synchronous; arguments and results are frozen values of `llmgw_core.spec`; no hook runs on the
gateway's request path. An implementation names only the arguments that it wants, without defaults.
"""

from __future__ import annotations

from collections.abc import Mapping

import pluggy

from llmgw_core.spec.engine import Command, EngineInfo, Launch, PluginInfo, ProbeResponse, Probes, Readiness
from llmgw_core.spec.flags import FlagTable
from llmgw_core.spec.node import FabricPort, Gpu, HostView
from llmgw_core.spec.placement import Ask, Candidate, Rejection, Score
from llmgw_core.spec.shard import Shard

__all__ = [
    "HOOK_API",
    "PROJECT",
    "hookimpl",
    "llmgw_accelerator_discover",
    "llmgw_engine_commands",
    "llmgw_engine_flags",
    "llmgw_engine_info",
    "llmgw_engine_probes",
    "llmgw_engine_ready",
    "llmgw_fabric_discover",
    "llmgw_fabric_env",
    "llmgw_placement_filter",
    "llmgw_placement_score",
    "llmgw_plugin_info",
]

PROJECT = "llmgw"
HOOK_API = 1
"""Version of this contract. A new hook or argument does not change it; a removal does."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def llmgw_plugin_info() -> PluginInfo:  # type: ignore[empty-body]
    """Say who the plugin is. Its name must be the name of the entry point."""


@hookspec
def llmgw_engine_info() -> EngineInfo:  # type: ignore[empty-body]
    """Give the facts about the engine as data: binary, capabilities, paths, failure patterns."""


@hookspec
def llmgw_engine_flags() -> tuple[FlagTable, ...]:  # type: ignore[empty-body]
    """Give the flag tables of the releases that the plugin knows. May be left out."""


@hookspec
def llmgw_engine_commands(shard: Shard, launch: Launch) -> tuple[Command, ...]:  # type: ignore[empty-body]
    """Give the processes of one rank: sidecars first, the engine last.

    Raises Unsupported(field, reason) for what this engine or version cannot do.
    """


@hookspec
def llmgw_engine_probes(shard: Shard, launch: Launch) -> Probes | None:
    """Give the requests that find out whether the shard is up; None for a rank that serves no HTTP."""


@hookspec
def llmgw_engine_ready(  # type: ignore[empty-body]
    shard: Shard, responses: Mapping[str, ProbeResponse]
) -> Readiness:
    """Judge the answers to the probes that were sent so far.

    `responses` has the keys `startup`, `readiness`, `inference`, as far as they were asked: the agent
    asks the next one only after a 2xx. Ready only when all three are there and good.
    """


@hookspec
def llmgw_accelerator_discover(host: HostView) -> tuple[Gpu, ...]:  # type: ignore[empty-body]
    """List the accelerators of a node, usable or not, each with its reasons."""


@hookspec
def llmgw_fabric_discover(host: HostView) -> tuple[FabricPort, ...]:  # type: ignore[empty-body]
    """List the fabric ports of a node, usable or not, each with its reasons."""


@hookspec
def llmgw_fabric_env(  # type: ignore[empty-body]
    ports: tuple[FabricPort, ...], launch: Launch
) -> Mapping[str, str]:
    """Give the environment that makes the collective library use exactly these ports."""


@hookspec
def llmgw_placement_filter(  # type: ignore[empty-body]
    ask: Ask, candidates: tuple[Candidate, ...]
) -> tuple[Rejection, ...]:
    """Reject candidates, each with its reason. A plugin that raises rejects all of them."""


@hookspec
def llmgw_placement_score(  # type: ignore[empty-body]
    ask: Ask, candidates: tuple[Candidate, ...]
) -> tuple[Score, ...]:
    """Score candidates from 0 to 1. A plugin that raises counts as 0 and is named in the explanation."""
