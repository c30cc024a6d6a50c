"""The flags of llama-server that the embedded look-alike takes: same names, same environment variables.

Each option says which fields of llama.cpp's parameters it sets. Nothing here imports xllamacpp, so that
`--help` and a wrong flag are answered at once; members of its enumerations are named as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["AUTO_PARALLEL", "DEFAULTS", "OPTIONS", "Member", "Option", "Setting"]

AUTO_PARALLEL = 4
"""Slots that llama-server makes where --parallel is not given or negative; they share one context."""


@dataclass(frozen=True)
class Member:
    """A member of one of xllamacpp's enumerations."""

    enumeration: str
    name: str


Setting = bool | int | float | str | list[str] | frozenset[str] | Member


@dataclass(frozen=True)
class Option:
    """One flag. `read` turns the text of a value into a setting.

    A switch has no value on the command line, only in its variable; `off` are its opposites. `read` raises
    ValueError when the text does not fit; its message never repeats the text, which may be a key.
    """

    names: tuple[str, ...]
    fields: tuple[str, ...]
    read: Callable[[str], Setting]
    env: str = ""
    off: tuple[str, ...] = ()
    switch: bool = False
    text: str = ""


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("not a whole number") from None


def _decimal(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("not a number") from None


def _truth(text: str) -> bool:
    words = {"on": True, "enabled": True, "true": True, "1": True}
    words |= {"off": False, "disabled": False, "false": False, "0": False}
    if text not in words:
        raise ValueError("write one of on, off, true, false, 1, 0")
    return words[text]


def _list(text: str) -> list[str]:
    pieces = [piece for piece in text.split(",") if piece]
    if not pieces:
        # Of all lists the keys matter: none would leave the server open to everyone.
        raise ValueError("it is empty")
    return pieces


def _names(text: str) -> frozenset[str]:
    return frozenset(_list(text))


def _file(text: str) -> str:
    try:
        return Path(text).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8 text") from None


def _key_file(text: str) -> list[str]:
    keys = [line for line in _file(text).splitlines() if line and not line.startswith("#")]
    return _list(",".join(keys))


def _layers(text: str) -> int:
    return {"auto": -1, "all": -2}[text] if text in {"auto", "all"} else _integer(text)


def _member(enumeration: str, prefix: str, words: str) -> Callable[[str], Setting]:
    """A reader of one of `words`, each alone or as `word=MEMBER`."""
    members: Mapping[str, str] = {
        word: member or word.upper().replace("-", "_")
        for word, _, member in (one.partition("=") for one in words.split())
    }

    def read(text: str) -> Setting:
        if text not in members:
            raise ValueError(f"write one of {', '.join(members)}")
        return Member(enumeration, prefix + members[text])

    return read


_cache_type = _member("ggml_type", "GGML_TYPE_", "f32 f16 bf16 q8_0 q4_0 q4_1 iq4_nl q5_0 q5_1")
_flash_attention = _member(
    "llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_", "on=ENABLED off=DISABLED auto=AUTO"
)
_load_mode = _member(
    "llama_load_mode", "LLAMA_LOAD_MODE_", "auto none mmap mlock mmap+mlock=MMAP_MLOCK dio=DIRECT_IO"
)
_split_mode = _member("llama_split_mode", "LLAMA_SPLIT_MODE_", "none layer row tensor")
_pooling = _member("llama_pooling_type", "LLAMA_POOLING_TYPE_", "none mean cls last rank")
_reasoning = _member(
    "common_reasoning_format", "COMMON_REASONING_FORMAT_", "none auto deepseek deepseek-legacy"
)

_PLACE = (
    Option(("-m", "--model"), ("model.path",), str, "LLAMA_ARG_MODEL", text="path of the GGUF file"),
    Option(("-a", "--alias"), ("model_alias",), _names, "LLAMA_ARG_ALIAS", text="name of the model"),
    Option(("--host",), ("hostnames",), _list, "LLAMA_ARG_HOST", text="address to listen on"),
    Option(("--port",), ("port",), _integer, "LLAMA_ARG_PORT", text="port to listen on, 0 for any free one"),
    Option(("--api-key",), ("api_keys",), _list, "LLAMA_API_KEY", text="keys that clients must send"),
    Option(("--api-key-file",), ("api_keys",), _key_file, "LLAMA_ARG_API_KEY_FILE", text="a file of keys"),
    Option(
        ("-to", "--timeout"), ("timeout_read", "timeout_write"), _integer, "LLAMA_ARG_TIMEOUT", text="seconds"
    ),
    Option(("--threads-http",), ("n_threads_http",), _integer, "LLAMA_ARG_THREADS_HTTP", text="HTTP threads"),
)
_SIZE = (
    Option(
        ("-c", "--ctx-size"), ("n_ctx",), _integer, "LLAMA_ARG_CTX_SIZE", text="tokens of all slots together"
    ),
    Option(("-np", "--parallel"), ("n_parallel",), _integer, "LLAMA_ARG_N_PARALLEL", text="number of slots"),
    Option(
        ("-t", "--threads"),
        ("cpuparams.n_threads",),
        _integer,
        "LLAMA_ARG_THREADS",
        text="threads to generate",
    ),
    Option(
        ("-tb", "--threads-batch"), ("cpuparams_batch.n_threads",), _integer, text="threads to read prompts"
    ),
    Option(("-b", "--batch-size"), ("n_batch",), _integer, "LLAMA_ARG_BATCH", text="logical batch"),
    Option(("-ub", "--ubatch-size"), ("n_ubatch",), _integer, "LLAMA_ARG_UBATCH", text="physical batch"),
    Option(
        ("-n", "--predict", "--n-predict"),
        ("n_predict",),
        _integer,
        "LLAMA_ARG_N_PREDICT",
        text="most tokens of an answer",
    ),
    Option(("--keep",), ("n_keep",), _integer, text="tokens of the prompt to keep"),
    Option(("-ctk", "--cache-type-k"), ("cache_type_k",), _cache_type, "LLAMA_ARG_CACHE_TYPE_K"),
    Option(("-ctv", "--cache-type-v"), ("cache_type_v",), _cache_type, "LLAMA_ARG_CACHE_TYPE_V"),
    Option(
        ("-cram", "--cache-ram"), ("cache_ram_mib",), _integer, "LLAMA_ARG_CACHE_RAM", text="MiB of prompts"
    ),
    Option(("--cache-reuse",), ("n_cache_reuse",), _integer, "LLAMA_ARG_CACHE_REUSE"),
    Option(("-ngl", "--gpu-layers", "--n-gpu-layers"), ("n_gpu_layers",), _layers, "LLAMA_ARG_N_GPU_LAYERS"),
    Option(("-sm", "--split-mode"), ("split_mode",), _split_mode, "LLAMA_ARG_SPLIT_MODE"),
    Option(("-mg", "--main-gpu"), ("main_gpu",), _integer, "LLAMA_ARG_MAIN_GPU"),
    Option(("-lm", "--load-mode"), ("load_mode",), _load_mode, "LLAMA_ARG_LOAD_MODE"),
    Option(("-fa", "--flash-attn"), ("flash_attn_type",), _flash_attention, "LLAMA_ARG_FLASH_ATTN"),
)
_MODEL = (
    Option(("--rope-freq-base",), ("rope_freq_base",), _decimal, "LLAMA_ARG_ROPE_FREQ_BASE"),
    Option(("--rope-freq-scale",), ("rope_freq_scale",), _decimal, "LLAMA_ARG_ROPE_FREQ_SCALE"),
    Option(("--pooling",), ("pooling_type",), _pooling, "LLAMA_ARG_POOLING"),
    Option(("--chat-template",), ("chat_template",), str, "LLAMA_ARG_CHAT_TEMPLATE"),
    Option(("--chat-template-file",), ("chat_template",), _file, "LLAMA_ARG_CHAT_TEMPLATE_FILE"),
    Option(("--reasoning-format",), ("reasoning_format",), _reasoning, "LLAMA_ARG_THINK"),
    Option(("-mm", "--mmproj"), ("mmproj.path",), str, "LLAMA_ARG_MMPROJ"),
    Option(("-s", "--seed"), ("sampling.seed",), _integer),
    Option(("--temp", "--temperature"), ("sampling.temp",), _decimal, "LLAMA_ARG_TEMPERATURE"),
    Option(("--top-k",), ("sampling.top_k",), _integer, "LLAMA_ARG_TOP_K"),
    Option(("--top-p",), ("sampling.top_p",), _decimal, "LLAMA_ARG_TOP_P"),
    Option(("--min-p",), ("sampling.min_p",), _decimal, "LLAMA_ARG_MIN_P"),
    Option(("-lv", "--verbosity", "--log-verbosity"), ("verbosity",), _integer, "LLAMA_ARG_LOG_VERBOSITY"),
)


def _switch(names: str, field: str, env: str = "", off: str = "", text: str = "") -> Option:
    return Option(tuple(names.split()), (field,), _truth, env, off=tuple(off.split()), switch=True, text=text)


_SWITCHES = (
    _switch("--metrics", "endpoint_metrics", "LLAMA_ARG_ENDPOINT_METRICS", text="serve /metrics"),
    _switch("--slots", "endpoint_slots", "LLAMA_ARG_ENDPOINT_SLOTS", "--no-slots"),
    _switch("--props", "endpoint_props", "LLAMA_ARG_ENDPOINT_PROPS"),
    _switch("--ui --webui", "ui", "LLAMA_ARG_UI", "--no-ui --no-webui"),
    _switch("--embedding --embeddings", "embedding", "LLAMA_ARG_EMBEDDINGS"),
    _switch("--jinja", "use_jinja", "LLAMA_ARG_JINJA", "--no-jinja"),
    _switch("--warmup", "warmup", off="--no-warmup"),
    _switch("-cb --cont-batching", "cont_batching", "LLAMA_ARG_CONT_BATCHING", "-nocb --no-cont-batching"),
    _switch("-kvu --kv-unified", "kv_unified", "LLAMA_ARG_KV_UNIFIED", "-no-kvu --no-kv-unified"),
    _switch("--context-shift", "ctx_shift", "LLAMA_ARG_CONTEXT_SHIFT", "--no-context-shift"),
    _switch("--cache-prompt", "cache_prompt", "LLAMA_ARG_CACHE_PROMPT", "--no-cache-prompt"),
    _switch("--swa-full", "swa_full", "LLAMA_ARG_SWA_FULL"),
    _switch("--check-tensors", "check_tensors"),
    _switch("--offline", "offline", "LLAMA_ARG_OFFLINE"),
)
OPTIONS: tuple[Option, ...] = _PLACE + _SIZE + _MODEL + _SWITCHES
DEFAULTS: Mapping[str, Setting] = {"hostnames": ["127.0.0.1"], "port": 8080, "n_parallel": -1}
"""What llama-server does where nothing is said, and xllamacpp does otherwise."""
