"""The SGLang engine driver of llmgw: knows the engine, does not start it yet.

Facts were seen with SGLang 0.5.23 on a CPU and read in the released sources of 0.4.0 to 0.5.23.
"""

from __future__ import annotations

from typing import NoReturn

from llmgw_core.spec import (
    HOOK_API,
    BinarySpec,
    Capability,
    EngineInfo,
    FailurePattern,
    MetricContract,
    PluginInfo,
    PortNeed,
    Readiness,
    Signals,
    Support,
    Unsupported,
    hookimpl,
)

_NOT_YET = "llmgw-sglang knows SGLang but has no commands yet, so it cannot start it"


@hookimpl
def llmgw_plugin_info() -> PluginInfo:
    """Say who the plugin is."""
    return PluginInfo(
        name="sglang",
        kind="engine",
        api=HOOK_API,
        summary="SGLang: finds it and its version; no commands yet",
    )


@hookimpl
def llmgw_engine_info() -> EngineInfo:
    """Give the facts about SGLang."""
    return EngineInfo(
        name="sglang",
        title="SGLang",
        binary=BinarySpec(
            names=("sglang",),
            version_args=("version",),
            version_pattern=r"sglang version: (\S+)",
            version_timeout=120.0,  # a command of SGLang takes 7 seconds of CPU before it does anything
            help_args=("serve", "--help"),
            install_hint="pip install sglang, in an environment of its own",
        ),
        # CPU is left unknown on purpose: it ran on one, but not with the packages that the wheel asks for.
        capabilities={
            Capability.GPU: Support.SUPPORTED,
            Capability.MULTI_NODE: Support.SUPPORTED,
            Capability.TP_ACROSS_NODES: Support.SUPPORTED,
            Capability.LORA: Support.SUPPORTED,
            Capability.KEY_BY_ENVIRONMENT: Support.UNSUPPORTED,
        },
        paths=("/v1/chat/completions", "/v1/completions"),
        failure_patterns=(
            FailurePattern(pattern=r"error: unrecognized arguments: (.*)", failure="configuration"),
            FailurePattern(pattern=r"CUDA out of memory|OutOfMemoryError", failure="out_of_memory"),
            FailurePattern(pattern=r"(?i)address already in use", failure="port_in_use"),
        ),
        # The port of --dist-init-addr listens on every interface, whatever the address says.
        ports=(
            PortNeed(name="rendezvous", scope="all_ranks_interface", ranks="leader", only_multi_node=True),
        ),
        metrics=(
            MetricContract(
                signals=Signals(
                    running="sglang:num_running_reqs",
                    waiting="sglang:num_queue_reqs",
                    kv_usage="sglang:token_usage",
                    tokens_total="sglang:generation_tokens_total",
                )
            ),
        ),
        max_nodes=2,  # two nodes were run; more were not
    )


@hookimpl
def llmgw_engine_commands() -> NoReturn:
    """Refuse every profile, with the reason."""
    raise Unsupported("engine", _NOT_YET)


@hookimpl
def llmgw_engine_probes() -> NoReturn:
    """Refuse: what is not started is not probed."""
    raise Unsupported("engine", _NOT_YET)


@hookimpl
def llmgw_engine_ready() -> Readiness:
    """Judge nothing ready, since nothing can have been started."""
    return Readiness(ready=False, reason=_NOT_YET)
