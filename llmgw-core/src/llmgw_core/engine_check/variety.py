"""Every kind of command that a plugin may be asked for: shapes of replicas, and options on top of each.

Plain enumerations, so that two runs ask the same. What an engine does not offer is asked for all the same:
its plugin has to refuse it, and the refusal is part of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from llmgw_core.engine_check.sample import sample_launch, sample_shard
from llmgw_core.spec import EngineInfo, Launch, Profile, Shard

__all__ = ["OPTIONS", "Option", "Request", "requests", "shapes"]

_NEWEST_GPU = "10.0"
"""Compute capability of the made-up GPUs: new enough for every number format."""


@dataclass(frozen=True)
class Option:
    """Something that can be asked for: fields of the profile, the shard and the launch that it sets."""

    label: str
    profile: Mapping[str, Any] = field(default_factory=dict)
    shard: Mapping[str, Any] = field(default_factory=dict)
    launch: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """One rank of one combination, to ask a plugin for its commands."""

    label: str
    shard: Shard
    launch: Launch


def _shape(label: str, gpus: int = 0, *, tp: int = 1, pp: int = 1, dp: int = 1, nodes: int = 1) -> Option:
    parallel = {"tensor_parallel": tp, "pipeline_parallel": pp, "data_parallel": dp}
    return Option(label, {"nodes": nodes, "gpus_per_node": gpus, **parallel})


def shapes(info: EngineInfo) -> tuple[Option, ...]:
    """Sizes of replicas: on a CPU, on GPUs of one node in every split, on several nodes in every mode."""
    nodes = max(2, info.max_nodes)
    single = (
        _shape("CPU"),
        _shape("1 GPU", 1),
        _shape("tensor parallel 2", 2, tp=2),
        _shape("pipeline parallel 2", 2, pp=2),
        _shape("data parallel 2", 2, dp=2),
        _shape("tensor 2 x pipeline 2", 4, tp=2, pp=2),
        _shape("tensor 2 x data 2", 4, tp=2, dp=2),
    )
    several = (
        _shape(f"{nodes} nodes, CPU, tensor parallel {nodes}", 0, tp=nodes, nodes=nodes),
        _shape(f"{nodes} nodes, tensor parallel {2 * nodes}", 2, tp=2 * nodes, nodes=nodes),
        _shape(f"{nodes} nodes, tensor 2 x pipeline {nodes}", 2, tp=2, pp=nodes, nodes=nodes),
        _shape(f"{nodes} nodes, tensor 2 x data {nodes}", 2, tp=2, dp=nodes, nodes=nodes),
    )
    by_mode = (
        Option(f"{shape.label}, by {mode}", {**shape.profile, "launch_mode": mode})
        for shape in several
        for mode in ("mp", "ray")
    )
    return (*single, *several, *by_mode)


def _profile(label: str, **fields: Any) -> Option:
    return Option(label, profile=fields)


OPTIONS: tuple[Option, ...] = (
    _profile("max_model_len", max_model_len=8192),
    *(_profile(f"quantization {one}", quantization=one) for one in ("fp8", "awq", "gptq", "nvfp4")),
    *(_profile(f"kv_cache_dtype {one}", kv_cache_dtype=one) for one in ("auto", "fp8", "fp8_e5m2", "q8_0")),
    _profile("lora", lora={"adapter": "/models/adapter"}),
    _profile("allow_remote_code", allow_remote_code=True),
    _profile("launch_mode mp", launch_mode="mp"),
    _profile("launch_mode ray", launch_mode="ray"),
    *(Option(f"kind {one}", shard={"kind": one}) for one in ("embedding", "rerank", "transcription")),
    Option("source of a hub", shard={"source": "organisation/model"}),
    Option("no key", launch={"key": None}),
    Option("fabric", launch={"interface": "ib0", "fabric_env": {"NCCL_IB_HCA": "mlx5_0"}}),
)


def requests(
    info: EngineInfo, shape: Option, options: tuple[Option, ...], *, binary: tuple[str, ...], version: str
) -> Iterator[Request]:
    """Every rank of a shape with some options; a later option overrides an earlier one."""
    fields = {name: value for part in (shape, *options) for name, value in part.profile.items()}
    profile = Profile(name="widest", engine=info.name, cpus=8, memory_mib=65536, **fields)
    launch = sample_launch(
        profile, binary=binary, version=version, compute_capability=_NEWEST_GPU
    ).model_copy(update={name: value for option in options for name, value in option.launch.items()})
    own = {name: value for option in options for name, value in option.shard.items()}
    label = ", ".join((shape.label, *(option.label for option in options)))
    for rank in range(profile.nodes):
        shard = sample_shard(info, profile, rank, model="model", source="/models/model")
        place = f", rank {rank}" if profile.nodes > 1 else ""
        yield Request(label + place, shard.model_copy(update=own), launch)
