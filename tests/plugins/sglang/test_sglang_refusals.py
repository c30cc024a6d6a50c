"""What SGLang, or one release of it, cannot do is refused by field, before a GPU waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.spec import Gpu, Launch, Shard, Unsupported
from llmgw_sglang import plugin

MakeShard = Callable[..., Shard]


def refusal(shard: Shard, launch: Launch) -> Unsupported:
    with pytest.raises(Unsupported) as refused:
        plugin.llmgw_engine_commands(shard, launch)
    assert refused.value.reason
    return refused.value


@pytest.mark.parametrize(
    ("field", "profile"),
    (
        ("launch_mode", {"launch_mode": "ray"}),
        ("tensor_parallel", {"tensor_parallel": 2, "gpus_per_node": 1}),
        ("tensor_parallel", {"tensor_parallel": 2, "gpus_per_node": 4, "nodes": 1}),
        ("data_parallel", {"data_parallel": 2, "nodes": 2}),
        ("quantization", {"quantization": "nope"}),
        ("quantization", {"quantization": "fp8\0"}),
        ("kv_cache_dtype", {"kv_cache_dtype": "fp8"}),
        ("env.CUDA_VISIBLE_DEVICES", {"env": {"CUDA_VISIBLE_DEVICES": "0"}}),
        ("env.SGLANG_HOST_IP", {"env": {"SGLANG_HOST_IP": "10.0.0.9"}}),
        ("env.NCCL_SOCKET_IFNAME", {"env": {"NCCL_SOCKET_IFNAME": "eth1"}}),
        ("env.SGLANG_GRPC_PORT", {"env": {"SGLANG_GRPC_PORT": "1"}}),
        ("env.LLMGW_SHARD", {"env": {"LLMGW_SHARD": "x"}}),
        ("lora.a=b", {"lora": {"a=b": "/adapters/a"}}),
        ("lora.{a", {"lora": {"{a": "/adapters/a"}}),
        ("lora.-a", {"lora": {"-a": "/adapters/a"}}),
        ("lora.a:b", {"lora": {"a:b": "/adapters/a"}}),
        ("lora.a", {"lora": {"a": "adapters/a"}}),
        ("lora.a", {"lora": {"a": "/adapters/\0"}}),
    ),
)
def test_a_profile_is_refused_by_field(
    make_shard: MakeShard, launch: Launch, field: str, profile: dict[str, Any]
) -> None:
    assert refusal(make_shard(**profile), launch).field == field


@pytest.mark.parametrize(
    ("field", "shard"),
    (
        ("kind", {"kind": "embedding"}),
        ("kind", {"kind": "rerank"}),
        ("kind", {"kind": "transcription"}),
        ("source", {"source": "llama"}),
        ("source", {"source": "a/b/c"}),
        ("source", {"source": "--help"}),
        ("source", {"source": "/models/\0"}),
        ("source", {"source": "s3://bucket/llama"}),
        ("name", {"served_name": ""}),
        ("name", {"served_name": "a\0"}),
        ("name", {"served_name": "llama:poet"}),
        ("nodes", {"rendezvous_port": None}),
    ),
)
def test_a_model_is_refused_by_field(
    make_shard: MakeShard, launch: Launch, field: str, shard: dict[str, Any]
) -> None:
    assert refusal(make_shard(shard, nodes=2, tensor_parallel=2), launch).field == field


@pytest.mark.parametrize(
    ("nodes", "sizes", "field"),
    ((2, (3, 1), "tensor_parallel"), (2, (1, 3), "pipeline_parallel"), (4, (1, 2), "tensor_parallel")),
)
def test_a_shape_that_nodes_cannot_share_evenly(
    make_shard: MakeShard, launch: Launch, nodes: int, sizes: tuple[int, int], field: str
) -> None:
    shard = make_shard(nodes=2, tensor_parallel=2)
    shape = {"nodes": nodes, "tensor_parallel": sizes[0], "pipeline_parallel": sizes[1], "gpus_per_node": 0}
    profile = shard.profile.model_copy(update=shape)
    assert refusal(shard.model_copy(update={"profile": profile}), launch).field == field


def test_a_hub_id_is_a_source(make_shard: MakeShard, launch: Launch) -> None:
    (command,) = plugin.llmgw_engine_commands(make_shard({"source": "org/model-7B"}), launch)
    assert "--model-path=org/model-7B" in command.argv


def test_what_a_release_does_not_have_yet_is_named_with_the_first_that_does(
    make_shard: MakeShard, launch: Launch
) -> None:
    old = launch.model_copy(update={"version": "0.4.6"})
    refused = refusal(make_shard(pipeline_parallel=2, gpus_per_node=2), old)
    assert refused.field == "pipeline_parallel"
    assert "needs SGLang 0.4.9, this is 0.4.6" in refused.reason


def test_a_release_older_than_all_that_are_known(make_shard: MakeShard, launch: Launch) -> None:
    assert refusal(make_shard(), launch.model_copy(update={"version": "0.3.6"})).field == "engine_version"


def test_the_refusal_does_not_depend_on_the_rank(make_shard: MakeShard, launch: Launch) -> None:
    shape: dict[str, Any] = {"nodes": 2, "tensor_parallel": 2, "engine_args": {"port": 1}}
    first, second = (refusal(make_shard(rank=rank, **shape), launch) for rank in (0, 1))
    assert (first.field, first.reason) == (second.field, second.reason)


def gpus(*classes: str, capability: str | None = None) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(index=i, uuid=f"GPU-{i}", gpu_class=name, compute_capability=capability)
        for i, name in enumerate(classes)
    )


def with_gpus(launch: Launch, facts: tuple[Gpu, ...]) -> Launch:
    return launch.model_copy(update={"gpu_facts": facts})


def test_a_group_of_mixed_gpu_types_is_refused(make_shard: MakeShard, launch: Launch) -> None:
    shard = make_shard(gpus_per_node=2, tensor_parallel=2)
    refused = refusal(shard, with_gpus(launch, gpus("a100-80g", "h100-80g")))
    assert refused.field == "gpu_class"
    assert "a100-80g and h100-80g" in refused.reason
    assert plugin.llmgw_engine_commands(shard, with_gpus(launch, gpus("h100-80g", "h100-80g")))


@pytest.mark.parametrize(
    ("profile", "capability", "needed"),
    (
        ({"quantization": "fp8"}, "8.6", "8.9"),
        ({"quantization": "w8a8_fp8"}, "8.0", "8.9"),
        ({"quantization": "modelopt_fp8"}, "7.5", "8.9"),
        ({"quantization": "modelopt_fp4"}, "9.0", "10.0"),
        ({"quantization": "nvfp4_online"}, "9.0", "10.0"),
        ({"kv_cache_dtype": "fp8_e4m3"}, "8.6", "8.9"),
        ({"kv_cache_dtype": "nvfp4"}, "9.0", "10.0"),
        ({"kv_cache_dtype": "fp4_mx_block16"}, "9.0", "10.0"),
    ),
)
def test_numbers_that_a_gpu_cannot_compute_with_are_refused(
    make_shard: MakeShard, launch: Launch, profile: dict[str, str], capability: str, needed: str
) -> None:
    shard = make_shard(**profile)
    refused = refusal(shard, with_gpus(launch, gpus("some", capability=capability)))
    assert [refused.field] == list(profile)
    assert f"needs compute capability {needed}, GPU 0 has {capability}" in refused.reason
    assert plugin.llmgw_engine_commands(shard, with_gpus(launch, gpus("some", capability=needed)))


def test_a_cache_that_is_only_stored_is_not_refused(make_shard: MakeShard, launch: Launch) -> None:
    shard = make_shard(kv_cache_dtype="fp8_e5m2")
    assert plugin.llmgw_engine_commands(shard, with_gpus(launch, gpus("a100-80g", capability="8.0")))


@pytest.mark.parametrize("capability", (None, "", "unknown"))
def test_an_unknown_capability_is_not_held_against_a_gpu(
    make_shard: MakeShard, launch: Launch, capability: str | None
) -> None:
    facts = gpus("some", capability=capability)
    assert plugin.llmgw_engine_commands(make_shard(quantization="fp8"), with_gpus(launch, facts))
