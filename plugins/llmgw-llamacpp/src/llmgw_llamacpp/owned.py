"""Flags of llama-server that engine_args may not set, in every spelling, and what to write instead.

An operator's flag that won over one of ours would break what the rest of llmgw relies on: where the engine
listens, who may ask it, which model it serves, and that no prompt reaches a log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["reason_to_refuse", "reason_to_refuse_variable"]

_GROUPS: Mapping[str, str] = {
    "m model mu model-url dr docker-repo hf hfr hf-repo hff hf-file hft hf-token "
    "models-dir models-preset models-preset-hf models-max models-autoload": "the model's `source` decides",
    "a alias tags": "the model's name decides",
    "host port reuse-port path api-prefix ssl-key-file ssl-cert-file cors-origins cors-methods cors-headers "
    "cors-credentials": "llmgw decides where and how the engine listens",
    "api-key api-key-file": "llmgw makes a key for each replica",
    "c ctx-size kv-unified-per-slot": "set the profile's `max_model_len`",
    "np n-parallel": "write it as `parallel`",
    "ngl gpu-layers": "write it as `n-gpu-layers`",
    "t threads tb threads-batch": "set the profile's `cpus`",
    "sm split-mode": "set the profile's `tensor_parallel` or `pipeline_parallel`",
    "ctk cache-type-k ctv cache-type-v": "set the profile's `kv_cache_dtype`",
    "embedding embeddings rerank reranking": "set the model's `kind`",
    "metrics": "llmgw reads the metrics, so they are always on",
    "ui webui ui-config webui-config ui-config-file webui-config-file": "the engine's own pages stay off",
    "props tools tools-runtime ag agent mcp-servers-config mcp-servers-json ui-mcp-proxy webui-mcp-proxy":
        "it would let a client change the engine or run programs on the node",
    "rpc": "llama.cpp's RPC has no authentication; llmgw runs it on one node only",
    "v verbose lv verbosity log-verbosity log-verbose log-prompts-dir":
        "at a higher level llama.cpp writes prompts to its log",
    "log-disable log-file log-jsonl log-colors": "llmgw reads the engine's log to explain failures",
    "h help usage version cl cache-list list-devices completion-bash": "the engine would print it and exit",
}  # fmt: skip
_OWNED: Mapping[str, str] = {name: reason for names, reason in _GROUPS.items() for name in names.split()}
_NEGATION = re.compile(r"^(?:no-)+")
# `--gpt-oss-20b-default` and the like: each replaces the model by one that is downloaded.
_PRESET = re.compile(r"(?:embd-gemma|fim-qwen|gpt-oss|vision-gemma)-")
# The agent chooses the devices from what placement gave to the shard.
_AGENTS_VARIABLES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "LLMGW_")


def reason_to_refuse(flag: str) -> str | None:
    """Why `flag` (a name without its leading dashes, words joined by dashes) is not the operator's to set."""
    name = _NEGATION.sub("", flag.lower())
    if _PRESET.match(name):
        return "the model's `source` decides"
    return _OWNED.get(name)


def reason_to_refuse_variable(name: str) -> str | None:
    """Why a profile's `env` may not set the variable `name`."""
    upper = name.upper()
    if upper.startswith("LLAMA_"):
        return "llama-server takes flags from such variables; write them under `engine_args`"
    if upper.startswith(_AGENTS_VARIABLES):
        return "the agent sets it from what was placed"
    return None
