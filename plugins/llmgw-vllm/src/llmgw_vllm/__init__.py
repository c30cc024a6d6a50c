"""The vLLM engine driver of llmgw: knows the engine, does not start it yet.

Facts were seen with vLLM 0.32.0 on a CPU and read in the released sources of 0.8.5 to 0.33.0.
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

_NOT_YET = "llmgw-vllm knows vLLM but has no commands yet, so it cannot start it"


@hookimpl
def llmgw_plugin_info() -> PluginInfo:
    """Say who the plugin is."""
    return PluginInfo(
        name="vllm",
        kind="engine",
        api=HOOK_API,
        summary="vLLM: finds it and its version; no commands yet",
    )


@hookimpl
def llmgw_engine_info() -> EngineInfo:
    """Give the facts about vLLM."""
    return EngineInfo(
        name="vllm",
        title="vLLM",
        binary=_binary(),
        # CPU is left unknown on purpose: it depends on the build, and the usual wheel is a CUDA build.
        capabilities={
            Capability.GPU: Support.SUPPORTED,
            Capability.MULTI_NODE: Support.SUPPORTED,
            Capability.TP_ACROSS_NODES: Support.SUPPORTED,
            Capability.LORA: Support.SUPPORTED,
            Capability.KEY_BY_ENVIRONMENT: Support.SUPPORTED,
        },
        paths=("/v1/chat/completions", "/v1/completions"),
        failure_patterns=(
            FailurePattern(
                pattern=r"vllm: error: unrecognized arguments: (.*)",
                failure="configuration",
                hint="this vLLM version does not have that flag; see `vllm serve --help=all`",
            ),
            FailurePattern(pattern=r"CUDA out of memory|OutOfMemoryError", failure="out_of_memory"),
            FailurePattern(pattern=r"(?i)address already in use", failure="port_in_use"),
        ),
        # The store of torch's process group listens on every interface, whatever --master-addr says.
        ports=(
            PortNeed(name="rendezvous", scope="all_ranks_interface", ranks="leader", only_multi_node=True),
        ),
        metrics=(
            MetricContract(versions=">=0.10.0", signals=_signals("vllm:kv_cache_usage_perc")),
            MetricContract(versions=">=0.8.5,<0.10.0", signals=_signals("vllm:gpu_cache_usage_perc")),
        ),
        max_nodes=2,  # two nodes were run; more were not
    )


def _binary() -> BinarySpec:
    return BinarySpec(
        names=("vllm",),
        # A line of Triton's may come first; the version stands alone on its line: 0.32.0+cpu.
        version_pattern=r"(?m)^(\d+\.\d+\S*)\s*$",
        version_timeout=120.0,  # every vllm command costs 12 to 15 seconds of CPU, twice that on a busy node
        help_args=("serve", "--help=all"),
        install_hint="pip install vllm, in an environment of its own",
    )


def _signals(kv_usage: str) -> Signals:
    return Signals(
        running="vllm:num_requests_running",
        waiting="vllm:num_requests_waiting",
        kv_usage=kv_usage,
        tokens_total="vllm:generation_tokens_total",
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
