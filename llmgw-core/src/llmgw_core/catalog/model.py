"""The catalog as everything else sees it: resolved, complete, immutable. Times are seconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Literal

from llmgw_core.spec.gateway import RequestTimeouts
from llmgw_core.spec.shard import ModelKind, Profile


@dataclass(frozen=True)
class Scaling:
    """Bounds of the number of replicas, and when to change it."""

    min_replicas: int = 1
    max_replicas: int = 1
    target_inflight: int = 32
    scale_down_after: float = 600.0
    idle_timeout: float = 0.0


@dataclass(frozen=True)
class Limits:
    """Bounds of admission: per replica, per model, per request."""

    max_inflight: int = 64
    queue_size: int = 256
    queue_timeout: float = 30.0


@dataclass(frozen=True)
class Model:
    """A model that clients can ask for; profiles are in order of preference."""

    name: str
    source: str
    profiles: tuple[Profile, ...]
    aliases: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    scaling: Scaling = Scaling()
    limits: Limits = Limits()
    on_lost: Literal["replace", "wait"] = "replace"
    stop_on_client_after: float = 0.0
    kind: ModelKind = "chat"
    routing: Literal["least_load", "prefix", "session", "round_robin"] = "least_load"
    timeouts: RequestTimeouts = field(default_factory=RequestTimeouts)


@dataclass(frozen=True)
class Catalog:
    """Every model by name. `revision` names the stored catalog; empty for one that is not stored."""

    models: Mapping[str, Model] = field(default_factory=lambda: MappingProxyType({}))
    revision: str = ""

    def resolve(self, name: str) -> Model | None:
        """The model of that name or alias."""
        return self._names.get(name)

    @cached_property
    def _names(self) -> Mapping[str, Model]:
        aliases = {alias: model for model in self.models.values() for alias in model.aliases}
        return {**aliases, **self.models}


def launch_revision(model: Model, profile: Profile) -> str:
    """12 hexadecimal digits over what restarts an engine, and nothing else (design chapter 14)."""
    launch = {
        "source": model.source,
        "engine": profile.engine,
        "engine_version": profile.engine_version,
        "gpu_class": profile.gpu_class,
        "nodes": profile.nodes,
        "gpus_per_node": profile.gpus_per_node,
        "parallel": [profile.tensor_parallel, profile.pipeline_parallel, profile.data_parallel],
        "launch_mode": profile.launch_mode,
        "quantization": profile.quantization,
        "kv_cache_dtype": profile.kv_cache_dtype,
        "max_model_len": profile.max_model_len,
        "lora": dict(profile.lora),
        "allow_remote_code": profile.allow_remote_code,
        "engine_args": dict(profile.engine_args),
        "env": dict(profile.env),
        "cpus": profile.cpus,
        "memory": profile.memory_mib,
    }
    return hashlib.sha256(json.dumps(launch, sort_keys=True).encode()).hexdigest()[:12]
