"""What a plugin refuses because it does not say that its engine can do it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from llmgw_core.spec.engine import Capability, EngineInfo
from llmgw_core.spec.errors import Unsupported
from llmgw_core.spec.shard import ModelKind, Profile, Shard

__all__ = ["refuse_unsupported"]

_KINDS: Mapping[ModelKind, Capability | None] = {
    "embedding": Capability.EMBEDDING,
    "rerank": Capability.RERANK,
    "transcription": None,
}
_SIZES = ("tensor_parallel", "pipeline_parallel", "data_parallel")
_OPTIONS = ("launch_mode", "quantization", "kv_cache_dtype", "max_model_len")


def refuse_unsupported(
    info: EngineInfo, shard: Shard, *, takes: Collection[str] = (), variables: Collection[str] = ()
) -> None:
    """Refuse what `info` does not declare as supported, and every optional field that is not in `takes`.

    So that no wish of an operator is dropped in silence: a field that a plugin does not look at is refused
    where it is set. `takes` has names of `Profile`: the parallel sizes, launch_mode, quantization,
    kv_cache_dtype, max_model_len. `variables` are names that a profile's `env` may not have, since the plugin
    sets them or they would change what it says. Raises Unsupported with the field.
    """
    for field, reason in _refusals(info, shard, takes):
        raise Unsupported(field, reason)
    for name in sorted(shard.profile.env.keys() & set(variables)):
        raise Unsupported(f"env.{name}", "llmgw sets it itself, or it would win over what llmgw sets")


def _refusals(info: EngineInfo, shard: Shard, takes: Collection[str]) -> Iterator[tuple[str, str]]:
    profile, title = shard.profile, info.title
    for field, text in (("source", shard.source), ("name", shard.served_name)):
        if not text or "\0" in text:
            yield field, "an empty text, or one with a NUL character, cannot be passed to a program"
    if profile.nodes > 1 and not info.supports(Capability.MULTI_NODE):
        yield "nodes", f"{title} runs a replica on one node"
    if profile.gpus_per_node and not info.supports(Capability.GPU):
        yield "gpus_per_node", f"{title} does not use GPUs"
    if not profile.gpus_per_node and not info.supports(Capability.CPU):
        yield "gpus_per_node", f"it is 0, and {title} needs a GPU"
    if shard.kind in _KINDS and not _serves(info, shard.kind):
        yield "kind", f"{title} does not serve models of kind {shard.kind}"
    if profile.lora and not info.supports(Capability.LORA):
        yield "lora", f"{title} does not serve adapters beside the model"
    for field in _asked(profile):
        if field not in takes:
            yield field, f"{title} has no use for it; leave it out"


def _serves(info: EngineInfo, kind: ModelKind) -> bool:
    capability = _KINDS[kind]
    return capability is not None and info.supports(capability)


def _asked(profile: Profile) -> Iterator[str]:
    yield from (field for field in _SIZES if getattr(profile, field) > 1)
    yield from (field for field in _OPTIONS if getattr(profile, field) is not None)
