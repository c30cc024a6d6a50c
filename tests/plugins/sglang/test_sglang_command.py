"""The command line of SGLang, word for word: every rank, several releases."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import Command, Launch, Shard, WaitFor, check_argv, table_for
from llmgw_sglang import plugin

MakeShard = Callable[..., Shard]
VERSIONS = ("", "0.4.0", "0.4.6", "0.4.9", "0.5.2", "0.5.4", "0.5.8", "0.5.20", "0.5.21", "0.5.23", "0.6.0")
MODEL = "serve --model-path=/models/llama --served-model-name=llama"
ALWAYS = "--enable-metrics --log-level=warning"
KEY_FILE = "--config /state/work/engine-key.yaml"


def command(shard: Shard, launch: Launch, version: str = "0.5.23") -> Command:
    (one,) = plugin.llmgw_engine_commands(shard, launch.model_copy(update={"version": version}))
    return one


def argv(shard: Shard, launch: Launch, version: str = "0.5.23") -> str:
    """The arguments after the binary, joined for reading; no item of these examples holds a space."""
    found = command(shard, launch, version).argv
    assert found[: len(launch.binary)] == launch.binary
    return " ".join(found[len(launch.binary) :])


def test_one_gpu(make_shard: MakeShard, launch: Launch) -> None:
    assert argv(make_shard(), launch) == (
        f"{MODEL} --host=10.0.0.1 --port=20000 --tp-size=1 --nccl-port=20001 {ALWAYS} {KEY_FILE}"
    )


def test_what_a_profile_says_of_the_model(make_shard: MakeShard, launch: Launch) -> None:
    shard = make_shard(
        max_model_len=8192,
        quantization="fp8",
        kv_cache_dtype="fp8_e5m2",
        lora={"poet": "/adapters/poet", "cook": "/adapters/cook"},
        engine_args={"mem-fraction-static": 0.8, "stream_interval": 2},
    )
    assert argv(shard, launch) == (
        f"{MODEL} --host=10.0.0.1 --port=20000 --tp-size=1 --nccl-port=20001 --context-length=8192 "
        "--quantization=fp8 --kv-cache-dtype=fp8_e5m2 --enable-lora --lora-paths cook=/adapters/cook "
        f"poet=/adapters/poet {ALWAYS} --mem-fraction-static=0.8 --stream-interval=2 {KEY_FILE}"
    )


def test_before_it_had_a_switch_the_paths_alone_turn_lora_on(make_shard: MakeShard, launch: Launch) -> None:
    shown = argv(make_shard(lora={"poet": "/adapters/poet"}), launch, "0.4.9")
    assert "--lora-paths poet=/adapters/poet --enable-metrics" in shown
    assert "--enable-lora" not in shown


def test_three_kinds_of_parallelism_on_one_node(make_shard: MakeShard, launch: Launch) -> None:
    shown = argv(make_shard(gpus_per_node=8, tensor_parallel=2, pipeline_parallel=2, data_parallel=2), launch)
    assert "--tp-size=2 --pp-size=2 --dp-size=2 " in shown
    # Every data-parallel group has a rendezvous of its own.
    assert "--nccl-port" not in shown


@pytest.mark.parametrize(
    ("rank", "own"),
    (
        (0, "--host=10.0.0.1 --port=20000 --tp-size=16 --nnodes=2 --node-rank=0"),
        (1, "--host=10.0.0.2 --port=20000 --tp-size=16 --nnodes=2 --node-rank=1"),
    ),
)
def test_ranks_of_two_nodes_meet_at_the_leader(
    make_shard: MakeShard, launch: Launch, rank: int, own: str
) -> None:
    shard = make_shard(rank=rank, nodes=2, gpus_per_node=8, tensor_parallel=16)
    key = f" {KEY_FILE}" if rank == 0 else ""
    assert argv(shard, launch) == f"{MODEL} {own} --dist-init-addr=10.0.0.1:20001 {ALWAYS}{key}"


def test_an_ipv6_leader_is_written_in_brackets(make_shard: MakeShard, launch: Launch) -> None:
    shard = make_shard({"leader_address": "fd00::1"}, nodes=2, tensor_parallel=2)
    assert "--dist-init-addr=[fd00::1]:20001" in argv(shard, launch)


def test_stages_of_a_pipeline_lie_on_two_nodes(make_shard: MakeShard, launch: Launch) -> None:
    shard = make_shard(nodes=2, gpus_per_node=4, tensor_parallel=4, pipeline_parallel=2)
    assert "--tp-size=4 --pp-size=2 --nnodes=2" in argv(shard, launch)


def test_a_worker_waits_for_the_leader_and_has_longer_to_end(make_shard: MakeShard, launch: Launch) -> None:
    shape = {"nodes": 2, "gpus_per_node": 1, "tensor_parallel": 2}
    leader = command(make_shard(rank=0, **shape), launch)
    worker = command(make_shard(rank=1, **shape), launch)
    assert leader.wait_for is None
    assert worker.wait_for == WaitFor(host="10.0.0.1", port=20001, timeout=1200.0)
    # It ends when rank 0 tells it to, and must not be killed while rank 0 still drains.
    assert worker.grace > leader.grace
    assert (worker.name, worker.stop_signal) == ("engine", "TERM")


def test_each_rank_names_its_own_address_and_interface(make_shard: MakeShard, launch: Launch) -> None:
    shard = make_shard(rank=1, nodes=2, tensor_parallel=2, env={"OMP_NUM_THREADS": "8"})
    assert dict(command(shard, launch).env) == {
        "OMP_NUM_THREADS": "8",
        "SGLANG_HOST_IP": "10.0.0.2",
        "NCCL_SOCKET_IFNAME": "=eth0",
        "GLOO_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
    }


def test_what_a_fabric_plugin_says_of_interfaces_stands(make_shard: MakeShard, launch: Launch) -> None:
    fabric = launch.model_copy(update={"fabric_env": {"NCCL_SOCKET_IFNAME": "=ib0"}})
    env = command(make_shard(nodes=2, tensor_parallel=2), fabric).env
    assert "NCCL_SOCKET_IFNAME" not in env
    assert env["GLOO_SOCKET_IFNAME"] == "eth0"


def test_one_node_needs_no_addresses(make_shard: MakeShard, launch: Launch) -> None:
    assert dict(command(make_shard(env={"A": "b"}), launch).env) == {"A": "b"}


def test_without_gpus_it_runs_on_cpus_with_a_limit(make_shard: MakeShard, launch: Launch) -> None:
    assert f"--device=cpu --max-total-tokens=16384 {ALWAYS}" in argv(make_shard(gpus_per_node=0), launch)
    shown = argv(make_shard(gpus_per_node=0, max_model_len=1024), launch)
    assert f"--context-length=1024 --device=cpu --max-total-tokens=4096 {ALWAYS}" in shown
    shown = argv(make_shard(gpus_per_node=0, engine_args={"max_total_tokens": 2048}), launch)
    assert f"--device=cpu {ALWAYS} --max-total-tokens=2048" in shown


def test_a_release_without_the_flag_chooses_its_own_port(make_shard: MakeShard, launch: Launch) -> None:
    assert "--nccl-port" not in argv(make_shard(), launch, "0.4.6")
    assert "--nccl-port=20001" in argv(make_shard(), launch, "0.4.9")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rank", (0, 1))
def test_every_flag_is_in_the_table_of_its_release(
    make_shard: MakeShard, launch: Launch, version: str, rank: int
) -> None:
    shard = make_shard(
        rank=rank,
        nodes=2,
        tensor_parallel=2,
        max_model_len=1024,
        lora={"poet": "/adapters/poet"},
        quantization="awq",
        kv_cache_dtype="fp8_e5m2",
    )
    table = table_for(plugin.llmgw_engine_flags(), plugin.llmgw_engine_info(), version)
    assert table is not None
    found = command(shard, launch, version).argv
    assert check_argv(table.table, found[2:]) == ()


def test_the_plugin_loads_and_answers_through_the_host(make_shard: MakeShard, launch: Launch) -> None:
    host = PluginHost.of(plugin)
    assert [loaded.info.name for loaded in host.plugins] == ["sglang"]
    (found,) = host.call_one("sglang", "llmgw_engine_commands", shard=make_shard(), launch=launch)
    assert found.argv[:2] == ("/opt/sglang/bin/sglang", "serve")
    assert host.call_one("sglang", "llmgw_engine_probes", shard=make_shard(), launch=launch) is not None
