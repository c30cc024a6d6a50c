"""Flags and variables of vLLM that a profile may not set, or only with `allow_remote_code`; and why.

An operator's flag that won over one of ours would break what the rest of llmgw relies on: where the engine
listens, who may ask it, which model it serves on how many GPUs, and that no prompt reaches a log.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_core.spec import owned_flag

from llmgw_vllm.tables import TABLES

__all__ = ["flag_fault", "needs_remote_code", "variable_fault"]

_GROUPS: Mapping[str, str] = {
    "model": "the model's `source` decides",
    "served-model-name": "the model's name decides",
    "config": "it could set every other flag; write them under `engine_args`",
    "host port uds root-path ssl-keyfile ssl-certfile ssl-ca-certs ssl-cert-reqs ssl-ciphers "
    "enable-ssl-refresh allowed-origins allowed-methods allowed-headers allow-credentials grpc grpc-port "
    "api-server-count headless disable-frontend-multiprocessing":
        "llmgw decides where and how the engine listens",
    "api-key middleware": "llmgw makes a key for each replica, and its guard asks for it",
    "hf-token": "every user of the node could read it; set HF_TOKEN in the agent's environment",
    "tensor-parallel-size": "set the profile's `tensor_parallel`",
    "pipeline-parallel-size": "set the profile's `pipeline_parallel`",
    "data-parallel-size data-parallel-size-local data-parallel-start-rank data-parallel-rank "
    "data-parallel-address data-parallel-rpc-port data-parallel-backend data-parallel-hybrid-lb "
    "data-parallel-external-lb data-parallel-multi-port-external-lb data-parallel-supervisor-port "
    "enable-elastic-ep elastic-ep-max-dp-size": "set the profile's `data_parallel`",
    "prefill-context-parallel-size": "it changes how many GPUs a replica needs",
    "nnodes node-rank master-addr master-port": "set the profile's `nodes`",
    "distributed-executor-backend": "set the profile's `launch_mode`",
    "device device-ids": "placement decides on which devices it runs",
    "max-model-len": "set the profile's `max_model_len`",
    "quantization": "set the profile's `quantization`",
    "kv-cache-dtype": "set the profile's `kv_cache_dtype`",
    "enable-lora lora-modules": "set the profile's `lora`",
    "task runner convert": "set the model's `kind`",
    "disable-log-stats": "llmgw reads the metrics, so they are always on",
    "enable-log-requests disable-log-requests enable-log-outputs enable-log-deltas":
        "it decides whether prompts and answers are written to the log; llmgw keeps them out",
    "log-config-file logging-config": "llmgw reads the engine's log to explain failures",
    "disable-uvicorn-access-log disable-access-log-for-endpoints":
        "the access log is off: probes would fill what the log keeps of a failure",
    "disable-fastapi-docs enable-offline-docs": "the engine's own pages stay off",
    "allowed-local-media-path": "it would let a client read files of the node",
    "trust-request-chat-template trust-request-mm-kwargs tokens-only enable-scale-out "
    "enable-tokenizer-info-endpoint": "it would open more of the engine to a client than llmgw accounts for",
    "help": "the engine would print it and exit",
}  # fmt: skip
_OWNED: Mapping[str, str] = {
    f"--{name}": reason for names, reason in _GROUPS.items() for name in names.split()
}

_REMOTE_CODE: frozenset[str] = frozenset(
    {
        "--trust-remote-code",
        "--code-revision",
        # Each of these names Python code that the engine then imports.
        "--worker-cls",
        "--worker-extension-cls",
        "--scheduler-cls",
        "--logits-processors",
        "--io-processor-plugin",
        "--tool-parser-plugin",
        "--reasoning-parser-plugin",
        "--model-class-overrides",
        "--kv-transfer-config",
        "--ec-transfer-config",
        # The demo tools run what the model wrote; embeddings are tensors that a client serialised.
        "--tool-server",
        "--enable-prompt-embeds",
        "--enable-mm-embeds",
    }
)
_REMOTE_CODE_VARIABLES = frozenset({"VLLM_PLUGINS", "VLLM_ALLOW_INSECURE_SERIALIZATION"})

_VARIABLES: Mapping[str, str] = {
    "VLLM_API_KEY": "llmgw makes a key for each replica",
    "VLLM_HOST_IP VLLM_PORT MASTER_ADDR MASTER_PORT": "llmgw decides the addresses of a replica's ranks",
    "VLLM_LOGGING_CONFIG_PATH VLLM_CONFIGURE_LOGGING": "llmgw reads the engine's log to explain failures",
    "VLLM_DEBUG_LOG_API_SERVER_RESPONSE": "answers must not be written to the log",
    "VLLM_SERVER_DEV_MODE VLLM_ALLOW_RUNTIME_LORA_UPDATING": "it would let a client change the engine",
    "VLLM_USE_RUST_FRONTEND": "that server does not have llmgw's key guard",
    "PYTHONPATH PYTHONHOME PYTHONSTARTUP": "llmgw puts its key guard there",
    "CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES CUDA_DEVICE_ORDER": "the agent sets it from what was placed",
}
_OWN_VARIABLES: Mapping[str, str] = {
    name: reason for names, reason in _VARIABLES.items() for name in names.split()
}
_OWN_PREFIXES: Mapping[str, str] = {
    "LLMGW_": "the agent sets it from what was placed",
    "RAY_": "llmgw starts Ray for this replica alone",
}


def flag_fault(word: str) -> str | None:
    """Why the flag `word`, in whatever spelling, is not the operator's to set; None when it is."""
    owned = owned_flag(TABLES, _OWNED.keys(), word)
    return _OWNED[owned] if owned else None


def needs_remote_code(word: str) -> bool:
    """Whether the flag `word`, in whatever spelling, lets code into the engine that is not the engine's."""
    return owned_flag(TABLES, _REMOTE_CODE, word) is not None


def variable_fault(name: str, *, allow_remote_code: bool) -> str | None:
    """Why a profile's `env` may not set the variable `name`; None when it may."""
    if name in _REMOTE_CODE_VARIABLES and not allow_remote_code:
        return "it lets other code into the engine; set the profile's `allow_remote_code: true` for that"
    prefixed = next((reason for prefix, reason in _OWN_PREFIXES.items() if name.startswith(prefix)), None)
    return _OWN_VARIABLES.get(name, prefixed)
