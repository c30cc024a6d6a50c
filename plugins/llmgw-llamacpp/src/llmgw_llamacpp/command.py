"""The command line of llama-server for one shard.

Everything that llmgw relies on is said explicitly: defaults differ between llama-server's releases (4 slots
or 1) and from those of the embedded look-alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from llmgw_core.spec import Command, EngineArg, Launch, Profile, Shard, Unsupported

from llmgw_llamacpp.arguments import operator_flags, option_name
from llmgw_llamacpp.owned import reason_to_refuse_variable
from llmgw_llamacpp.release import Release

__all__ = ["DEFAULT_CONTEXT", "DEFAULT_PARALLEL", "engine"]

DEFAULT_CONTEXT = 4096
"""Tokens of one request where the profile has no max_model_len: the model's own length may not fit."""
DEFAULT_PARALLEL = 4
"""Requests at a time, as many as llama-server's own `auto`."""
_CACHE_TYPES = frozenset({"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"})
_EVERY_LAYER = "999"  # `all` is known to newer builds only


def engine(shard: Shard, launch: Launch) -> Command:
    """The engine of a shard. Raises Unsupported(field, reason) for what llama-server cannot do."""
    profile = shard.profile
    _check_shape(profile)
    _check_names(shard)
    _check_environment(profile)
    release = Release.of(launch)
    flags = operator_flags(profile.engine_args, release)
    ours = {
        **_identity(shard),
        **_context(profile),
        **_hardware(shard, flags),
        **_kind(shard, flags),
        "metrics": ("--metrics",),
        # Newer builds call it --no-ui, and those that were looked at still know the old name.
        "webui": (release.first("--no-webui", "--no-ui"),),
    }
    # A flag of the operator's that we read ourselves, such as `parallel`, is said once, in its place.
    groups = {**ours, **{name: items for name, items in flags.items() if name not in ours}}.values()
    return Command(
        name="engine",
        argv=(*launch.binary, *(item for group in groups for item in group)),
        env=profile.env,
        # In the environment, so that no process list shows it.
        secret_env={"LLAMA_API_KEY": launch.key} if launch.key is not None else {},
        grace=shard.timeouts.kill,
    )


def _check_shape(profile: Profile) -> None:
    gpus, tensor, pipeline = profile.gpus_per_node, profile.tensor_parallel, profile.pipeline_parallel
    if profile.nodes > 1:
        raise Unsupported("nodes", "llama.cpp runs a replica on one node")
    if profile.data_parallel > 1:
        raise Unsupported("data_parallel", "llama.cpp has no data parallelism; ask for more replicas")
    if tensor > 1 and pipeline > 1:
        raise Unsupported("pipeline_parallel", "llama.cpp splits a model in one way: by tensors or by layers")
    for field, size in (("tensor_parallel", tensor), ("pipeline_parallel", pipeline)):
        if size > 1 and size != gpus:
            raise Unsupported(field, f"it is {size}, but the profile has {gpus} GPUs per node")
    if profile.launch_mode is not None:
        raise Unsupported("launch_mode", "llama.cpp has one launch mode; leave it out")
    if profile.quantization is not None:
        raise Unsupported("quantization", "a GGUF file has its quantization in itself; leave it out")
    if profile.lora:
        raise Unsupported("lora", "llama.cpp cannot choose an adapter by model name; use engine_args.lora")


def _check_names(shard: Shard) -> None:
    if shard.kind not in {"chat", "embedding"}:
        raise Unsupported("kind", f"llama.cpp under llmgw serves chat and embedding models, not {shard.kind}")
    if not PurePosixPath(shard.source).is_absolute() or "\0" in shard.source:
        raise Unsupported("source", "llama.cpp needs the absolute path of a GGUF file on the node")
    # llama-server splits aliases at commas and sorts them, so that the wrong one could become the id.
    if "," in shard.served_name or shard.served_name.startswith("-") or not shard.served_name:
        raise Unsupported("name", "a name with a comma, or one that begins with a dash, cannot be served")
    if "\0" in shard.served_name:
        raise Unsupported("name", "a NUL character cannot be passed to a program")


def _check_environment(profile: Profile) -> None:
    for name in sorted(profile.env):
        if reason := reason_to_refuse_variable(name):
            raise Unsupported(f"env.{name}", reason)


def _identity(shard: Shard) -> dict[str, tuple[str, ...]]:
    return {
        "model": ("--model", shard.source),
        "alias": ("--alias", shard.served_name),
        "host": ("--host", shard.address),
        "port": ("--port", str(shard.http_port)),
    }


def _context(profile: Profile) -> dict[str, tuple[str, ...]]:
    parallel = _parallel(profile)
    # llama-server divides --ctx-size among its slots; max_model_len is what one request may use.
    total = (profile.max_model_len or DEFAULT_CONTEXT) * parallel
    return {"ctx-size": ("--ctx-size", str(total)), "parallel": ("--parallel", str(parallel))}


def _parallel(profile: Profile) -> int:
    key = _as_written(profile.engine_args, "parallel")
    if key is None:
        return DEFAULT_PARALLEL
    value = profile.engine_args[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Unsupported(f"engine_args.{key}", "the number of requests at a time, at least 1")
    return value


def _as_written(engine_args: Mapping[str, EngineArg], name: str) -> str | None:
    """The operator's spelling of an engine argument; None when it is not given."""
    return next((key for key in engine_args if option_name(key) == name), None)


def _hardware(shard: Shard, flags: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    profile = shard.profile
    key = _as_written(profile.engine_args, "n-gpu-layers")
    if key is not None and not profile.gpus_per_node:
        raise Unsupported(f"engine_args.{key}", "the profile has no GPU")
    every = ("--n-gpu-layers", _EVERY_LAYER if profile.gpus_per_node else "0")
    found = {
        "threads": ("--threads", str(max(1, profile.cpus))),
        "n-gpu-layers": flags.get("n-gpu-layers", every),
    }
    if profile.tensor_parallel > 1:
        found["split-mode"] = ("--split-mode", "row")
    elif profile.gpus_per_node > 1:
        found["split-mode"] = ("--split-mode", "layer")
    return {**found, **_cache(profile)}


def _cache(profile: Profile) -> dict[str, tuple[str, ...]]:
    dtype = profile.kv_cache_dtype
    if dtype is None or dtype == "auto":
        return {}
    if dtype not in _CACHE_TYPES:
        raise Unsupported("kv_cache_dtype", f"llama.cpp knows {', '.join(sorted(_CACHE_TYPES))}, not {dtype}")
    return {"cache-type-k": ("--cache-type-k", dtype), "cache-type-v": ("--cache-type-v", dtype)}


def _kind(shard: Shard, flags: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    if shard.kind == "chat":
        return {}
    # An embedding is computed in one batch: a longer input than --ubatch-size is refused.
    whole = str(shard.profile.max_model_len or DEFAULT_CONTEXT)
    batch = {name: (f"--{name}", whole) for name in ("batch-size", "ubatch-size") if name not in flags}
    return {"embedding": ("--embedding",), **batch}
