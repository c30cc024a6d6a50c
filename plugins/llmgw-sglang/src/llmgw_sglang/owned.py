"""Flags and variables of SGLang that a profile may not set, or only with `allow_remote_code`; and why.

An operator's flag that won over one of ours would break what the rest of llmgw relies on: where the engine
listens, who may ask it, which model it serves on how many GPUs, and that no prompt reaches a log.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_core.spec import owned_flag

from llmgw_sglang.tables import TABLES

__all__ = ["flag_fault", "needs_remote_code", "variable_fault"]

_PORTS = "it opens a port that llmgw does not know"
_CLIENTS = "it would open more of the engine to a client than llmgw accounts for"
_GROUPS: Mapping[str, str] = {
    "model-path": "the model's `source` decides",
    "served-model-name": "the model's name decides",
    "model-type": "llmgw starts the server for language models",
    "config": "it could set every other flag, and llmgw keeps the key in one; write them under `engine_args`",
    "host port fastapi-root-path ssl-keyfile ssl-certfile ssl-ca-certs ssl-keyfile-password "
    "enable-ssl-refresh enable-http2 http2-max-concurrent-streams http2-initial-connection-window-size "
    "grpc-mode smg-grpc-mode grpc-port smg-http-sidecar-port":
        "llmgw decides where and how the engine listens",
    "api-key admin-api-key": "llmgw makes a key for each replica",
    "tp-size": "set the profile's `tensor_parallel`",
    "pp-size": "set the profile's `pipeline_parallel`",
    "dp-size": "set the profile's `data_parallel`",
    "enable-dp-attention attn-dp-size": "llmgw does not know the ports that it takes, nor its count of GPUs",
    "nnodes node-rank dist-init-addr use-ray": "set the profile's `nodes`",
    "nccl-port": "placement decides on the ports",
    "base-gpu-id gpu-id-step device": "placement decides on which devices it runs",
    "context-length": "set the profile's `max_model_len`",
    "quantization": "set the profile's `quantization`",
    "kv-cache-dtype": "set the profile's `kv_cache_dtype`",
    "enable-lora lora-paths": "set the profile's `lora`",
    "is-embedding": "llmgw's SGLang serves chat models only",
    "skip-tokenizer-init encoder-only": "there would be no OpenAI API without it",
    "enable-metrics": "llmgw reads the metrics, so they are always on",
    "log-level log-level-http": "below `warning` SGLang writes its key and its requests to the log",
    "log-requests log-requests-level log-requests-format log-requests-target crash-dump-folder "
    "export-metrics-to-file export-metrics-to-file-dir debug-tensor-dump-output-folder":
        "it decides whether prompts and answers are written down; llmgw keeps them out",
    "kv-events-config load-publish-endpoint gated-launch-port engine-info-bootstrap-port "
    "disaggregation-mode disaggregation-bootstrap-port encoder-bootstrap-port": _PORTS,
    "sidecar sidecar-args": "it starts another program beside the engine",
    "enable-custom-logit-processor trust-request-chat-template trust-mm-content-hashes tool-server": _CLIENTS,
    "help": "the engine would print it and exit",
}  # fmt: skip
_OWNED: Mapping[str, str] = {
    f"--{name}": reason for names, reason in _GROUPS.items() for name in names.split()
}
# Each of the others names Python code that the engine then imports.
_REMOTE_CODE = frozenset({"--trust-remote-code", "--custom-weight-loader", "--forward-hooks"})

_VARIABLES: Mapping[str, str] = {
    "SGLANG_HOST_IP HOST_IP SGLANG_LOCAL_IP_NIC SGLANG_DISTRIBUTED_INIT_METHOD_OVERRIDE NCCL_SOCKET_IFNAME "
    "GLOO_SOCKET_IFNAME TP_SOCKET_IFNAME": "llmgw decides the addresses of a replica's ranks",
    "SGLANG_GRPC_PORT SGLANG_RUST_SERVER": _PORTS,
    "SGLANG_LOG_REQUEST_HEADERS": "the engine's key is in a header of every request",
    "CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES CUDA_DEVICE_ORDER": "the agent sets it from what was placed",
}
_OWN_VARIABLES: Mapping[str, str] = {
    name: reason for names, reason in _VARIABLES.items() for name in names.split()
}


def flag_fault(word: str) -> str | None:
    """Why the flag `word`, in whatever spelling, is not the operator's to set; None when it is."""
    owned = owned_flag(TABLES, _OWNED.keys(), word)
    return _OWNED[owned] if owned else None


def needs_remote_code(word: str) -> bool:
    """Whether the flag `word`, in whatever spelling, lets code into the engine that is not the engine's."""
    return owned_flag(TABLES, _REMOTE_CODE, word) is not None


def variable_fault(name: str) -> str | None:
    """Why a profile's `env` may not set the variable `name`; None when it may."""
    if name.startswith("LLMGW_"):
        return "the agent sets it from what was placed"
    return _OWN_VARIABLES.get(name)
