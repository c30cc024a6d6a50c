"""What is refused before anything is started, with the field that is to blame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.spec import Command, Gpu, Launch, Unsupported

MakeCommands = Callable[..., tuple[Command, ...]]
MakeLaunch = Callable[..., Launch]
TWO: dict[str, Any] = {"nodes": 2, "tensor_parallel": 8, "gpus_per_node": 4}
CPU = "0.32.0+cpu"


def refusal(commands: MakeCommands, **asked: Any) -> Unsupported:
    with pytest.raises(Unsupported) as caught:
        commands(**asked)
    return caught.value


@pytest.mark.parametrize(
    ("asked", "field", "reason"),
    (
        ({"tensor_parallel": 3, "gpus_per_node": 2}, "tensor_parallel", "has 1 × 2 GPUs"),
        ({"nodes": 2, "gpus_per_node": 2}, "tensor_parallel", "has 2 × 2 GPUs"),
        (
            {"nodes": 2, "tensor_parallel": 4, "pipeline_parallel": 3, "gpus_per_node": 6},
            "tensor_parallel",
            "groups of 4 would lie unevenly on nodes with 6 devices",
        ),
        (
            {"nodes": 2, "tensor_parallel": 4, "data_parallel": 2, "gpus_per_node": 4, "launch_mode": "ray"},
            "launch_mode",
            "runs without Ray",
        ),
        (
            {"nodes": 4, "tensor_parallel": 8, "data_parallel": 2, "gpus_per_node": 4},
            "data_parallel",
            "takes 8 devices, which must lie on one node",
        ),
        ({"launch_mode": "slurm"}, "launch_mode", "mp or ray, not by slurm"),
        ({"launch_mode": "ray"}, "launch_mode", "one node needs no Ray"),
        ({"gpus_per_node": 0, "pipeline_parallel": 2, "version": ""}, "pipeline_parallel", "first request"),
        (
            {"gpus_per_node": 0, "nodes": 2, "tensor_parallel": 2, "launch_mode": "ray", "version": ""},
            "launch_mode",
            "on CPUs",
        ),
        ({"gpus_per_node": 0, "nodes": 2, "tensor_parallel": 3, "version": CPU}, "tensor_parallel", "evenly"),
        ({"version": CPU}, "gpus_per_node", "is a build for CPUs"),
        ({"version": "0.33.0", "gpus_per_node": 0}, "gpus_per_node", "is not a build for CPUs"),
        ({**TWO, "version": "0.11.0"}, "launch_mode", "vLLM 0.11.1, this is 0.11.0; set launch_mode: ray"),
        (
            {"nodes": 2, "data_parallel": 2, "version": "0.8.5"},
            "data_parallel",
            "needs vLLM 0.9.2, this is 0.8.5",
        ),
        ({"version": "0.8.4"}, "engine_version", "too old; llmgw knows 0.8.5 and newer"),
        ({"shard": {"rendezvous_port": None}, **TWO}, "nodes", "no port where the nodes could meet"),
        ({"shard": {"kind": "rerank"}}, "kind", "not rerank"),
        ({"shard": {"source": "models/llama/x"}}, "source", "absolute path"),
        ({"shard": {"source": "--help"}}, "source", "absolute path"),
        ({"shard": {"source": "s3://models/x"}}, "source", "absolute path"),
        ({"shard": {"served_name": ""}}, "name", "cannot be served"),
        ({"lora": {"{a": "/adapters/a"}}, "lora.{a", "not a name"),
        ({"lora": {"a=b": "/adapters/a"}}, "lora.a=b", "not a name"),
        ({"lora": {"a": "adapters/a"}}, "lora.a", "absolute path"),
        ({"kv_cache_dtype": "q8_0", "version": "0.32.0"}, "kv_cache_dtype", "0.32.0: its value is none of"),
        ({"env": {"PYTHONPATH": "/x"}}, "env.PYTHONPATH", "key guard"),
        ({"env": {"VLLM_API_KEY": "x"}}, "env.VLLM_API_KEY", "makes a key"),
        ({"env": {"VLLM_HOST_IP": "10.0.0.9"}}, "env.VLLM_HOST_IP", "addresses"),
        ({"env": {"VLLM_USE_RUST_FRONTEND": "1"}}, "env.VLLM_USE_RUST_FRONTEND", "key guard"),
        ({"env": {"RAY_ADDRESS": "auto"}}, "env.RAY_ADDRESS", "this replica alone"),
        ({"env": {"CUDA_VISIBLE_DEVICES": "0"}}, "env.CUDA_VISIBLE_DEVICES", "the agent sets it"),
        ({"env": {"VLLM_PLUGINS": "mine"}}, "env.VLLM_PLUGINS", "allow_remote_code: true"),
    ),
)
def test_it_is_refused_with_field_and_reason(
    commands: MakeCommands, asked: dict[str, Any], field: str, reason: str
) -> None:
    error = refusal(commands, **asked)
    assert error.field == field
    assert reason in error.reason


def test_a_worker_is_refused_what_its_leader_is(commands: MakeCommands) -> None:
    for mode in ("mp", "ray"):
        asked = {**TWO, "launch_mode": mode, "engine_args": {"port": 1}}
        assert refusal(commands, rank=1, **asked).field == refusal(commands, rank=0, **asked).field


def test_a_replica_over_nodes_of_an_old_release_runs_with_ray(commands: MakeCommands) -> None:
    head, engine = commands(0, version="0.8.5", launch_mode="ray", **TWO)
    assert head.argv[1:3] == ("start", "--head")
    assert "--distributed-executor-backend=ray" in engine.argv


def gpu(index: int, capability: str | None = "9.0", kind: str = "h100-80g") -> Gpu:
    return Gpu(index=index, uuid=f"GPU-{index}", gpu_class=kind, compute_capability=capability)


@pytest.mark.parametrize(
    ("asked", "capability", "field"),
    (
        ({"quantization": "fp8"}, "8.0", "quantization"),
        ({"quantization": "fp8"}, "8.9", None),
        ({"quantization": "modelopt"}, "8.6", "quantization"),
        ({"quantization": "modelopt_fp4"}, "9.0", "quantization"),
        ({"quantization": "modelopt_fp4"}, "10.0", None),
        ({"quantization": "awq"}, "7.5", None),
        ({"kv_cache_dtype": "fp8_e5m2"}, "8.6", "kv_cache_dtype"),
        ({"kv_cache_dtype": "fp8_e5m2"}, "12.0", None),
        ({"kv_cache_dtype": "nvfp4"}, "9.0", "kv_cache_dtype"),
        ({"kv_cache_dtype": "auto"}, "7.0", None),
        ({"quantization": "fp8"}, None, None),
    ),
)
def test_numbers_that_a_gpu_cannot_compute_are_refused(
    commands: MakeCommands,
    make_launch: MakeLaunch,
    asked: dict[str, Any],
    capability: str | None,
    field: str | None,
) -> None:
    launch = make_launch(gpu_facts=(gpu(0, capability),))
    if field is None:
        assert commands(launch=launch, **asked)
    else:
        error = refusal(commands, launch=launch, **asked)
        assert error.field == field
        assert f"GPU 0 has {capability}" in error.reason


def test_a_tensor_parallel_group_does_not_mix_types_of_gpu(
    commands: MakeCommands, make_launch: MakeLaunch
) -> None:
    launch = make_launch(gpu_facts=(gpu(0), gpu(1, kind="l40s-45g")))
    error = refusal(commands, launch=launch, tensor_parallel=2, gpus_per_node=2)
    assert (error.field, error.reason) == (
        "gpu_class",
        "a tensor-parallel group cannot mix h100-80g and l40s-45g",
    )
    assert commands(launch=launch, data_parallel=2, gpus_per_node=2)
