"""Golden commands: every rank and mode, and what differs between releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.spec import Command, Launch, WaitFor
from pydantic import SecretStr

MakeCommands = Callable[..., tuple[Command, ...]]
MakeLaunch = Callable[..., Launch]

SERVE = ("/opt/vllm/bin/vllm", "serve", "/models/llama")
ADDRESS = ("--served-model-name=llama-3.3-70b", "--host=10.0.0.1", "--port=20000")
QUIET = ("--disable-uvicorn-access-log", "--disable-fastapi-docs")
GUARD = ("--middleware=llmgw_vllm_guard.KeyGuard",)


def sizes(tensor: int, pipeline: int = 1) -> tuple[str, ...]:
    return (f"--tensor-parallel-size={tensor}", f"--pipeline-parallel-size={pipeline}")


def test_one_gpu_of_one_node(commands: MakeCommands) -> None:
    (engine,) = commands(max_model_len=4096)
    assert engine.name == "engine"
    assert engine.argv == (*SERVE, *ADDRESS, *sizes(1), "--max-model-len=4096", *QUIET, *GUARD)
    assert engine.wait_for is None


def test_all_gpus_of_one_node_say_how_they_are_driven(commands: MakeCommands) -> None:
    (engine,) = commands(tensor_parallel=4, gpus_per_node=4)
    expected = (*SERVE, *ADDRESS, *sizes(4), "--distributed-executor-backend=mp", *QUIET, *GUARD)
    assert engine.argv == expected


def test_tensor_pipeline_and_data_parallel_on_one_node(commands: MakeCommands) -> None:
    (engine,) = commands(tensor_parallel=2, pipeline_parallel=2, data_parallel=2, gpus_per_node=8)
    parallel = (*sizes(2, 2), "--data-parallel-size=2", "--distributed-executor-backend=mp")
    assert engine.argv == (*SERVE, *ADDRESS, *parallel, *QUIET, *GUARD)


def test_the_leader_of_two_nodes_without_ray(commands: MakeCommands) -> None:
    (engine,) = commands(0, nodes=2, tensor_parallel=8, gpus_per_node=4)
    meeting = ("--nnodes=2", "--node-rank=0", "--master-addr=10.0.0.1", "--master-port=20100")
    parallel = (*sizes(8), "--distributed-executor-backend=mp", *meeting)
    assert engine.argv == (*SERVE, *ADDRESS, *parallel, *QUIET, *GUARD)
    assert engine.wait_for is None
    assert engine.env["VLLM_HOST_IP"] == "10.0.0.1"


def test_a_worker_of_two_nodes_without_ray(commands: MakeCommands) -> None:
    (engine,) = commands(1, nodes=2, tensor_parallel=4, pipeline_parallel=2, gpus_per_node=4)
    meeting = ("--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1", "--master-port=20100")
    address = ("--served-model-name=llama-3.3-70b", "--host=10.0.0.2", "--port=20000")
    parallel = (*sizes(4, 2), "--distributed-executor-backend=mp", *meeting, "--headless")
    assert engine.argv == (*SERVE, *address, *parallel, *QUIET)
    assert engine.wait_for == WaitFor(host="10.0.0.1", port=20100, timeout=1200.0)
    assert engine.env["VLLM_HOST_IP"] == "10.0.0.2"
    assert dict(engine.secret_env) == {}


@pytest.mark.parametrize("rank", (0, 1))
def test_data_parallel_engines_over_two_nodes(commands: MakeCommands, rank: int) -> None:
    (engine,) = commands(rank, nodes=2, tensor_parallel=4, data_parallel=4, gpus_per_node=8)
    expected = (
        *sizes(4),
        "--data-parallel-size=4",
        "--distributed-executor-backend=mp",
        "--data-parallel-size-local=2",
        f"--data-parallel-start-rank={2 * rank}",
        "--data-parallel-address=10.0.0.1",
        "--data-parallel-rpc-port=20100",
        *(("--headless",) if rank else ()),
    )
    assert tuple(item for item in engine.argv if item in expected) == expected
    assert not any(item.startswith("--nnodes") for item in engine.argv)


RAY_NODE = ("--num-cpus=8", "--num-gpus=4", "--disable-usage-stats", "--block")


def test_the_leader_of_a_ray_cluster(commands: MakeCommands) -> None:
    head, engine = commands(0, nodes=2, tensor_parallel=8, gpus_per_node=4, launch_mode="ray")
    assert head.name == "ray"
    assert head.argv == (
        "/opt/vllm/bin/ray",
        "start",
        "--head",
        "--port=20100",
        "--include-dashboard=false",
        "--node-ip-address=10.0.0.1",
        *RAY_NODE,
    )
    parallel = (*sizes(8), "--distributed-executor-backend=ray")
    assert engine.argv == (*SERVE, *ADDRESS, *parallel, *QUIET, *GUARD)
    assert engine.wait_for == WaitFor(host="10.0.0.1", port=20100, timeout=60.0)
    assert engine.env["RAY_ADDRESS"] == "10.0.0.1:20100"


def test_a_worker_of_a_ray_cluster_only_joins(commands: MakeCommands) -> None:
    (engine,) = commands(1, nodes=2, tensor_parallel=8, gpus_per_node=4, launch_mode="ray")
    address = ("--address=10.0.0.1:20100", "--node-ip-address=10.0.0.2")
    assert engine.name == "engine"
    assert engine.argv == ("/opt/vllm/bin/ray", "start", *address, *RAY_NODE)
    assert engine.wait_for == WaitFor(host="10.0.0.1", port=20100, timeout=1200.0)
    assert engine.env["VLLM_HOST_IP"] == "10.0.0.2"


@pytest.mark.parametrize("rank", (0, 1))
def test_every_process_of_a_ray_cluster_asks_for_its_token(commands: MakeCommands, rank: int) -> None:
    for command in commands(rank, nodes=2, tensor_parallel=8, gpus_per_node=4, launch_mode="ray"):
        secrets = {name: value.get_secret_value() for name, value in command.secret_env.items()}
        assert command.env["RAY_AUTH_MODE"] == "token"
        assert secrets["RAY_AUTH_TOKEN"] == "engine-key"
        assert ("VLLM_API_KEY" in secrets) == (command.argv[1] == "serve")


def test_every_option_that_a_profile_has(commands: MakeCommands) -> None:
    (engine,) = commands(
        quantization="awq",
        kv_cache_dtype="fp8",
        lora={"sql": "/adapters/sql", "de": "/adapters/de"},
        engine_args={"max-lora-rank": 32, "enable_prefix_caching": False, "enforce-eager": None},
        env={"HF_HUB_OFFLINE": "1"},
    )
    options = ("--quantization=awq", "--kv-cache-dtype=fp8", "--enable-lora", "--lora-modules")
    adapters = ("de=/adapters/de", "sql=/adapters/sql")
    own = ("--no-enable-prefix-caching", "--enforce-eager", "--max-lora-rank=32")
    assert engine.argv == (*SERVE, *ADDRESS, *sizes(1), *options, *adapters, *QUIET, *GUARD, *own)
    assert engine.env["HF_HUB_OFFLINE"] == "1"


def test_the_key_is_in_the_environment_alone_and_the_guard_asks_for_it(commands: MakeCommands) -> None:
    (engine,) = commands()
    assert engine.secret_env["VLLM_API_KEY"].get_secret_value() == "engine-key"
    assert "engine-key" not in repr(engine)
    assert engine.env["PYTHONPATH"].endswith("/llmgw_vllm/guard")


def test_without_a_key_there_is_no_guard(commands: MakeCommands, make_launch: MakeLaunch) -> None:
    (engine,) = commands(launch=make_launch(key=None))
    assert engine.argv == (*SERVE, *ADDRESS, *sizes(1), *QUIET)
    assert dict(engine.secret_env) == {}
    assert "PYTHONPATH" not in engine.env


@pytest.mark.parametrize(
    ("version", "silent"),
    (
        ("0.8.5", True),
        ("0.10.0", True),
        ("0.10.1", True),
        ("0.10.2", False),
        ("0.17.0", False),
        ("0.33.0", False),
        ("0.40.0", False),
        ("", False),
    ),
)
def test_requests_are_kept_out_of_the_log_where_a_release_would_log_them(
    commands: MakeCommands, version: str, silent: bool
) -> None:
    (engine,) = commands(version=version)
    assert ("--disable-log-requests" in engine.argv) == silent


@pytest.mark.parametrize(
    ("version", "flags"),
    (
        ("0.8.5", ("--task=embed",)),
        ("0.10.0", ("--task=embed",)),
        ("0.10.2", ("--runner=pooling", "--convert=embed")),
        ("0.33.0", ("--runner=pooling", "--convert=embed")),
    ),
)
def test_embedding_models_are_asked_for_as_the_release_says_it(
    commands: MakeCommands, version: str, flags: tuple[str, ...]
) -> None:
    (engine,) = commands(version=version, shard={"kind": "embedding"})
    kinds = [item for item in engine.argv if item.startswith(("--task", "--runner", "--convert"))]
    assert tuple(kinds) == flags


def test_a_node_without_gpus_keeps_within_what_was_given_to_it(commands: MakeCommands) -> None:
    (engine,) = commands(version="0.32.0+cpu", gpus_per_node=0, cpus=4, memory_mib=8192)
    assert engine.env["VLLM_CPU_KVCACHE_SPACE"] == "4"
    assert engine.env["OMP_NUM_THREADS"] == "4"
    assert engine.env["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"


def test_what_a_profile_says_about_cpus_wins(commands: MakeCommands) -> None:
    env = {"VLLM_CPU_KVCACHE_SPACE": "9", "VLLM_CPU_OMP_THREADS_BIND": "0-3"}
    (engine,) = commands(version="0.32.0+cpu", gpus_per_node=0, env=env)
    assert {name: engine.env[name] for name in env} == env


def test_ranks_of_several_nodes_talk_over_the_interface_of_their_address(commands: MakeCommands) -> None:
    (engine,) = commands(1, nodes=2, tensor_parallel=2)
    names = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
    assert [engine.env[name] for name in names] == ["=eth0", "eth0", "eth0"]


def test_an_interface_that_a_fabric_plugin_chose_stays(
    commands: MakeCommands, make_launch: MakeLaunch
) -> None:
    launch = make_launch(fabric_env={"NCCL_SOCKET_IFNAME": "=ib0"})
    (engine,) = commands(1, launch=launch, nodes=2, tensor_parallel=2)
    assert "NCCL_SOCKET_IFNAME" not in engine.env


@pytest.mark.parametrize(
    ("binary", "ray"),
    (
        (("vllm",), ("ray",)),
        (("/opt/a/vllm",), ("/opt/a/ray",)),
        (("/usr/bin/nice", "-n5", "/opt/a/vllm"), ("/usr/bin/nice", "-n5", "/opt/a/ray")),
    ),
)
def test_ray_is_the_one_beside_vllm(
    commands: MakeCommands, make_launch: MakeLaunch, binary: tuple[str, ...], ray: tuple[str, ...]
) -> None:
    asked: dict[str, Any] = {"nodes": 2, "tensor_parallel": 2, "launch_mode": "ray"}
    (engine,) = commands(1, launch=make_launch(binary=binary, key=SecretStr("k")), **asked)
    assert engine.argv[: len(ray) + 1] == (*ray, "start")
