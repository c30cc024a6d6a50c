"""The command line of llama-server, word for word, and what is refused instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import Launch, Shard, Unsupported
from llmgw_llamacpp import plugin

MakeShard = Callable[..., Shard]


def argv(shard: Shard, launch: Launch) -> str:
    """The arguments after the binary, joined for reading; no item of these examples holds a space."""
    (command,) = plugin.llmgw_engine_commands(shard, launch)
    assert command.argv[: len(launch.binary)] == launch.binary
    return " ".join(command.argv[len(launch.binary) :])


COMMON = "--model /models/smol.gguf --alias smol --host 10.0.0.1 --port 9001"


def test_a_cpu_profile_says_every_default(make_shard: MakeShard, launch: Launch) -> None:
    assert argv(make_shard(), launch) == (
        f"{COMMON} --ctx-size 16384 --parallel 4 --threads 3 --n-gpu-layers 0 --metrics --no-webui"
    )


def test_the_context_is_for_each_request(make_shard: MakeShard, launch: Launch) -> None:
    shard = make_shard(max_model_len=1024, engine_args={"parallel": 2, "temp": 0.5, "warmup": False})
    assert argv(shard, launch) == (
        f"{COMMON} --ctx-size 2048 --parallel 2 --threads 3 --n-gpu-layers 0 --metrics --no-webui "
        "--temp 0.5 --no-warmup"
    )


def test_gpus_hold_every_layer_and_are_split_by_layers(make_shard: MakeShard, launch: Launch) -> None:
    shard = make_shard(gpus_per_node=2, pipeline_parallel=2, kv_cache_dtype="q8_0")
    assert argv(shard, launch) == (
        f"{COMMON} --ctx-size 16384 --parallel 4 --threads 3 --n-gpu-layers 999 --split-mode layer "
        "--cache-type-k q8_0 --cache-type-v q8_0 --metrics --no-webui"
    )


def test_tensor_parallel_splits_by_rows(make_shard: MakeShard, launch: Launch) -> None:
    assert "--split-mode row" in argv(make_shard(gpus_per_node=4, tensor_parallel=4), launch)


def test_the_operator_may_leave_layers_on_the_cpu(make_shard: MakeShard, launch: Launch) -> None:
    shown = argv(make_shard(gpus_per_node=1, engine_args={"n_gpu_layers": 12}), launch)
    assert "--n-gpu-layers 12" in shown
    assert "999" not in shown


def test_an_embedding_model_takes_a_whole_input_in_one_batch(make_shard: MakeShard, launch: Launch) -> None:
    shard = make_shard({"kind": "embedding"}, max_model_len=2048, engine_args={"pooling": "mean"})
    assert argv(shard, launch).endswith(
        "--embedding --batch-size 2048 --ubatch-size 2048 --metrics --no-webui --pooling mean"
    )


def test_a_word_that_yaml_reads_as_true_stays_a_word(make_shard: MakeShard, launch: Launch) -> None:
    assert argv(make_shard(engine_args={"flash-attn": True}), launch).endswith("--flash-attn on")
    assert argv(make_shard(engine_args={"flash-attn": False}), launch).endswith("--flash-attn off")


def test_a_list_is_joined_by_commas(make_shard: MakeShard, launch: Launch) -> None:
    shard = make_shard(gpus_per_node=2, pipeline_parallel=2, engine_args={"tensor-split": (3, 1)})
    assert argv(shard, launch).endswith("--tensor-split 3,1")


def test_the_key_is_only_in_the_secret_environment(make_shard: MakeShard, launch: Launch) -> None:
    (command,) = plugin.llmgw_engine_commands(make_shard(env={"OMP_PROC_BIND": "true"}), launch)
    assert command.secret_env["LLAMA_API_KEY"].get_secret_value() == "engine-key"
    assert dict(command.env) == {"OMP_PROC_BIND": "true"}
    assert "engine-key" not in repr(command)


def test_without_a_key_the_engine_asks_for_none(make_shard: MakeShard, launch: Launch) -> None:
    (command,) = plugin.llmgw_engine_commands(make_shard(), launch.model_copy(update={"key": None}))
    assert dict(command.secret_env) == {}


def test_the_engine_has_the_time_to_stop_that_the_shard_gives(make_shard: MakeShard, launch: Launch) -> None:
    (command,) = plugin.llmgw_engine_commands(make_shard({"timeouts": {"kill": 7.5}}), launch)
    assert (command.name, command.stop_signal, command.grace) == ("engine", "TERM", 7.5)


@pytest.mark.parametrize(
    ("field", "profile"),
    (
        ("nodes", {"nodes": 2}),
        ("data_parallel", {"data_parallel": 2}),
        ("tensor_parallel", {"tensor_parallel": 2, "gpus_per_node": 1}),
        ("pipeline_parallel", {"pipeline_parallel": 4, "gpus_per_node": 2}),
        ("pipeline_parallel", {"pipeline_parallel": 2, "tensor_parallel": 2, "gpus_per_node": 4}),
        ("launch_mode", {"launch_mode": "ray"}),
        ("quantization", {"quantization": "fp8"}),
        ("lora", {"lora": {"a": "/adapters/a"}}),
        ("kv_cache_dtype", {"kv_cache_dtype": "fp8"}),
        ("engine_args.parallel", {"engine_args": {"parallel": 0}}),
        ("engine_args.parallel", {"engine_args": {"parallel": "2"}}),
        ("engine_args.parallel", {"engine_args": {"parallel": True}}),
        ("engine_args.n_gpu_layers", {"engine_args": {"n_gpu_layers": 1}}),
        ("env.LLAMA_ARG_MODEL_URL", {"env": {"LLAMA_ARG_MODEL_URL": "http://x"}}),
        ("env.llama_api_key", {"env": {"llama_api_key": "mine"}}),
        ("env.CUDA_VISIBLE_DEVICES", {"env": {"CUDA_VISIBLE_DEVICES": "0"}}),
    ),
)
def test_a_profile_is_refused_by_field(
    make_shard: MakeShard, launch: Launch, field: str, profile: dict[str, Any]
) -> None:
    with pytest.raises(Unsupported) as refused:
        plugin.llmgw_engine_commands(make_shard(**profile), launch)
    assert refused.value.field == field
    assert refused.value.reason


@pytest.mark.parametrize(
    ("field", "shard"),
    (
        ("kind", {"kind": "rerank"}),
        ("kind", {"kind": "transcription"}),
        ("source", {"source": "ggml-org/gemma-3-4b-it-GGUF"}),
        ("source", {"source": "models/smol.gguf"}),
        ("source", {"source": "--help"}),
        ("name", {"served_name": "a,b"}),
        ("name", {"served_name": "--port"}),
        ("name", {"served_name": ""}),
        ("name", {"served_name": "a\0b"}),
    ),
)
def test_a_model_is_refused_by_field(
    make_shard: MakeShard, launch: Launch, field: str, shard: dict[str, Any]
) -> None:
    with pytest.raises(Unsupported) as refused:
        plugin.llmgw_engine_commands(make_shard(shard), launch)
    assert refused.value.field == field


def test_the_plugin_loads_and_answers_through_the_host(make_shard: MakeShard, launch: Launch) -> None:
    host = PluginHost.of(plugin)
    assert [loaded.info.name for loaded in host.plugins] == ["llamacpp"]
    (command,) = host.call_one("llamacpp", "llmgw_engine_commands", shard=make_shard(), launch=launch)
    assert command.argv[0] == "/usr/bin/llama-server"
    assert host.call_one("llamacpp", "llmgw_engine_probes", shard=make_shard(), launch=launch) is not None
