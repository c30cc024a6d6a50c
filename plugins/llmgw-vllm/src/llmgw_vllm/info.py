"""What core has to know about vLLM, as data.

Seen with vLLM 0.32.0 on CPUs, and read in the released sources of 0.8.5 to 0.33.0.
"""

from __future__ import annotations

from llmgw_core.spec import BinarySpec, Capability, EngineInfo, MetricContract, PortNeed, Signals, Support

from llmgw_vllm.failures import PATTERNS

__all__ = ["ENGINE", "OLDEST"]

OLDEST = "0.8.5"
"""The oldest release whose sources were read."""

_BINARY = BinarySpec(
    names=("vllm",),
    # A line of Triton's may come first; the version stands alone on its line: 0.32.0+cpu.
    version_pattern=r"(?m)^(\d+\.\d+\S*)\s*$",
    version_timeout=120.0,  # every vllm command costs 12 to 15 seconds of CPU, twice that on a busy node
    help_args=("serve", "--help=all"),
    install_hint=(
        "pip install vllm, in an environment of its own, and put its vllm on the agent's PATH or name it in "
        "the agent's config under engines.vllm"
    ),
)


def _signals(kv_usage: str) -> Signals:
    return Signals(
        running="vllm:num_requests_running",
        waiting="vllm:num_requests_waiting",
        kv_usage=kv_usage,
        tokens_total="vllm:generation_tokens_total",
    )


ENGINE = EngineInfo(
    name="vllm",
    title="vLLM",
    binary=_BINARY,
    capabilities={
        # A build runs on one or the other; which one its version says, and the command checks.
        Capability.CPU: Support.SUPPORTED,
        Capability.GPU: Support.SUPPORTED,
        Capability.MULTI_NODE: Support.SUPPORTED,
        Capability.TP_ACROSS_NODES: Support.SUPPORTED,
        Capability.LORA: Support.SUPPORTED,
        Capability.EMBEDDING: Support.SUPPORTED,
        Capability.KEY_BY_ENVIRONMENT: Support.SUPPORTED,
    },
    paths=("/v1/chat/completions", "/v1/completions", "/v1/embeddings"),
    failure_patterns=PATTERNS,
    # Rank 0 of a replica opens it on every interface, whatever address it is given.
    ports=(PortNeed(name="rendezvous", scope="all_ranks_interface", ranks="leader", only_multi_node=True),),
    metrics=(
        MetricContract(versions=">=0.10.0", signals=_signals("vllm:kv_cache_usage_perc")),
        MetricContract(versions=">=0.8.5,<0.10.0", signals=_signals("vllm:gpu_cache_usage_perc")),
    ),
    max_nodes=2,  # two nodes were run; more were not
)
