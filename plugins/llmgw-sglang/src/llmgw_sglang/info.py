"""What core has to know about SGLang, as data."""

from __future__ import annotations

from llmgw_core.spec import BinarySpec, Capability, EngineInfo, MetricContract, PortNeed, Signals, Support

from llmgw_sglang.failures import PATTERNS

__all__ = ["ENGINE", "OLDEST", "RENDEZVOUS"]

OLDEST = "0.4.0"
"""The oldest release that was looked at."""
RENDEZVOUS = "rendezvous"
"""Name of the port where the ranks of one replica meet."""

BINARY = BinarySpec(
    names=("sglang",),
    version_args=("version",),
    version_pattern=r"sglang version: (\S+)",
    version_timeout=120.0,  # a command of SGLang takes 7 seconds of CPU before it does anything
    # Without the choice of a server the help of the one for images follows that of the one for text.
    help_args=("serve", "--model-type", "llm", "--help"),
    install_hint=(
        "install SGLang in an environment of its own, and put its sglang on the agent's PATH or name it in "
        "the agent's config under engines.sglang; for releases before 0.5.6 see the plugin's README"
    ),
)

ENGINE = EngineInfo(
    name="sglang",
    title="SGLang",
    binary=BINARY,
    capabilities={
        # Not with the packages that its wheel asks for; the plugin's README says with which.
        Capability.CPU: Support.SUPPORTED,
        Capability.GPU: Support.SUPPORTED,
        Capability.MULTI_NODE: Support.SUPPORTED,
        Capability.TP_ACROSS_NODES: Support.SUPPORTED,
        Capability.LORA: Support.SUPPORTED,
        Capability.EMBEDDING: Support.UNSUPPORTED,
        Capability.RERANK: Support.UNSUPPORTED,
        Capability.KEY_BY_ENVIRONMENT: Support.UNSUPPORTED,
    },
    paths=("/v1/chat/completions", "/v1/completions"),
    failure_patterns=PATTERNS,
    # Whatever address it is given, torch's store listens on every interface; on a single node too.
    ports=(PortNeed(name=RENDEZVOUS, scope="all_ranks_interface", ranks="leader"),),
    metrics=(
        # Every release that was looked at says it with a colon; what scrapes may write an underscore.
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
