"""What core has to know about llama.cpp, as data."""

from __future__ import annotations

from llmgw_core.spec import BinarySpec, Capability, EngineInfo, MetricContract, Signals, Support

from llmgw_llamacpp.failures import PATTERNS

BINARY = BinarySpec(
    names=("llama-server",),
    fallback=("{python}", "-m", "llmgw_llamacpp.launcher"),
    # Three forms: "0.6.0-dev (build 11434, commit unknown)", "4567 (abcdef)" and the launcher's own.
    version_pattern=r"version: (?:\S+ \(build )?(\d+)(?=[ ,])",
    install_hint=(
        "put llama-server on the agent's PATH, or name it in the agent's config under engines.llamacpp, "
        'or install the embedded one: pip install "llmgw-llamacpp[embedded]"'
    ),
)

ENGINE = EngineInfo(
    name="llamacpp",
    title="llama.cpp",
    binary=BINARY,
    capabilities={
        Capability.CPU: Support.SUPPORTED,
        Capability.GPU: Support.SUPPORTED,
        # Its RPC mode has no authentication at all, so it is not offered.
        Capability.MULTI_NODE: Support.UNSUPPORTED,
        Capability.TP_ACROSS_NODES: Support.UNSUPPORTED,
        # Adapters can be loaded, but a request cannot choose one by model name.
        Capability.LORA: Support.UNSUPPORTED,
        Capability.EMBEDDING: Support.SUPPORTED,
        Capability.RERANK: Support.UNSUPPORTED,
        Capability.KEY_BY_ENVIRONMENT: Support.SUPPORTED,
    },
    paths=("/v1/chat/completions", "/v1/completions", "/v1/embeddings"),
    failure_patterns=PATTERNS,
    metrics=(
        MetricContract(
            signals=Signals(
                running="llamacpp:requests_processing",
                waiting="llamacpp:requests_deferred",
                tokens_total="llamacpp:tokens_predicted_total",
            )
        ),
    ),
    max_nodes=1,
)
