"""A catalog that is accepted: what is written, what is filled in, what is warned about."""

from __future__ import annotations

from collections.abc import Callable

from llmgw_core.catalog.load import LoadedCatalog
from llmgw_core.catalog.model import Limits, Scaling, launch_revision
from llmgw_core.spec import Profile, RequestTimeouts

Load = Callable[[str | bytes], LoadedCatalog]

FULL = """
version: 1
defaults: {load_timeout: 10m, env: {A: 1, B: two}, engine_args: {x: 1}}
models:
  llama-3.3-70b:
    source: /models/Llama-3.3-70B-Instruct
    aliases: [gpt-4o]
    fallbacks: [small]
    scaling: {min_replicas: 1, max_replicas: 4, target_inflight: 16, scale_down_after: 5m, idle_timeout: 0s}
    limits: {max_inflight: 48, queue_size: 128, queue_timeout: 10s}
    on_lost: wait
    stop_on_client_after: 1h
    kind: chat
    routing: prefix
    timeouts: {first_byte: 1m, between_chunks: 30s, total: 30m}
    profiles:
      - name: h100-tp4
        engine: vllm
        engine_version: ">=0.10"
        gpu_class: h100-80g
        nodes: 2
        gpus_per_node: 2
        tensor_parallel: 2
        pipeline_parallel: 2
        launch_mode: mp
        quantization: fp8
        kv_cache_dtype: auto
        max_model_len: 32768
        start_timeout: 90s
        load_timeout: 20m
        drain_timeout: 3m
        lora: {support: /lora/support}
        allow_remote_code: true
        engine_args: {max-num-seqs: 256, enforce-eager: true, bare: null, stop: [a, 1]}
        env: {B: three}
        node_selector: {rack: a}
        cpus: 8
        memory: 64GiB
  small:
    source: org/small
    profiles:
      - {engine: llamacpp, max_model_len: 32768}
"""


def test_every_key_arrives(load: Load) -> None:
    loaded = load(FULL)
    model = loaded.catalog.models["llama-3.3-70b"]
    assert loaded.warnings == ()
    assert (model.name, model.source) == ("llama-3.3-70b", "/models/Llama-3.3-70B-Instruct")
    assert (model.aliases, model.fallbacks) == (("gpt-4o",), ("small",))
    assert model.scaling == Scaling(1, 4, 16, 300.0, 0.0)
    assert model.limits == Limits(48, 128, 10.0)
    assert (model.on_lost, model.kind, model.routing, model.stop_on_client_after) == (
        "wait",
        "chat",
        "prefix",
        3600.0,
    )
    assert model.timeouts == RequestTimeouts(first_byte=60.0, between_chunks=30.0, total=1800.0)
    assert model.profiles == (
        Profile(
            name="h100-tp4",
            engine="vllm",
            engine_version=">=0.10",
            gpu_class="h100-80g",
            nodes=2,
            gpus_per_node=2,
            tensor_parallel=2,
            pipeline_parallel=2,
            data_parallel=1,
            launch_mode="mp",
            quantization="fp8",
            kv_cache_dtype="auto",
            max_model_len=32768,
            start_timeout=90.0,
            load_timeout=1200.0,
            drain_timeout=180.0,
            lora={"support": "/lora/support"},
            allow_remote_code=True,
            engine_args={"x": 1, "max-num-seqs": 256, "enforce-eager": True, "bare": None, "stop": ("a", 1)},
            env={"A": "1", "B": "three"},
            node_selector={"rack": "a"},
            cpus=8,
            memory_mib=65536,
        ),
    )


def test_what_is_left_out_has_the_documented_default(load: Load) -> None:
    model = load("version: 1\nmodels: {m: {source: /m, profiles: [{engine: llamacpp}]}}").catalog.models["m"]
    assert model.profiles == (Profile(name="llamacpp", engine="llamacpp"),)
    assert (model.scaling, model.limits, model.timeouts) == (Scaling(), Limits(), RequestTimeouts())
    assert (model.on_lost, model.routing, model.kind, model.stop_on_client_after) == (
        "replace",
        "least_load",
        "chat",
        0.0,
    )


def test_a_key_with_nothing_behind_it_is_left_out(load: Load) -> None:
    text = (
        "version: 1\ndefaults:\nmodels:\n  m:\n    source: /m\n    aliases:\n    scaling:\n"
        "    profiles: [{engine: llamacpp, cpus: }]\n"
    )
    model = load(text).catalog.models["m"]
    assert model.aliases == ()
    assert model.profiles[0].cpus == 1


def test_a_catalog_may_be_without_models(load: Load) -> None:
    assert dict(load("version: 1\nmodels: {}").catalog.models) == {}


def test_at_most_as_many_replicas_as_at_least_where_nothing_is_said(load: Load) -> None:
    text = (
        "version: 1\nmodels: {m: {source: /m, scaling: {min_replicas: %d}, profiles: [{engine: llamacpp}]}}"
    )
    assert load(text % 3).catalog.models["m"].scaling.max_replicas == 3
    assert load(text % 0).catalog.models["m"].scaling.max_replicas == 1


def test_the_engine_may_come_from_the_defaults(load: Load) -> None:
    catalog = load(
        "version: 1\ndefaults: {engine: llamacpp}\nmodels: {m: {source: /m, profiles: [{cpus: 2}]}}"
    ).catalog
    assert catalog.models["m"].profiles == (Profile(name="llamacpp", engine="llamacpp", cpus=2),)


def test_names_and_aliases_resolve_to_the_model(load: Load) -> None:
    catalog = load(FULL).catalog
    assert catalog.resolve("gpt-4o") is catalog.resolve("llama-3.3-70b") is catalog.models["llama-3.3-70b"]
    assert catalog.resolve("gpt-4") is None


def test_names_stay_text_even_if_yaml_reads_them_otherwise(load: Load) -> None:
    body = "{source: /m, profiles: [{engine: llamacpp}]}"
    catalog = load(f"version: 1\nmodels:\n  no: {body}\n  1.10: {body}\n  007: {body}\n").catalog
    assert list(catalog.models) == ["no", "1.10", "007"]


def test_a_fallback_with_a_smaller_context_is_a_warning(load: Load) -> None:
    loaded = load(FULL.replace("llamacpp, max_model_len: 32768", "llamacpp, max_model_len: 4096"))
    (warning,) = loaded.warnings
    assert warning.severity == "warning"
    assert warning.path == "models.llama-3.3-70b.fallbacks[0]"
    assert (warning.line, warning.column) == (8, 17)
    assert "takes 4096 tokens, fewer than the 32768" in warning.message


def test_raising_a_timeout_restarts_nothing(load: Load) -> None:
    before = load(FULL).catalog.models["llama-3.3-70b"]
    after = load(FULL.replace("load_timeout: 20m", "load_timeout: 30m")).catalog.models["llama-3.3-70b"]
    other = load(FULL.replace("max-num-seqs: 256", "max-num-seqs: 128")).catalog.models["llama-3.3-70b"]
    revision = launch_revision(before, before.profiles[0])
    assert launch_revision(after, after.profiles[0]) == revision
    assert launch_revision(other, other.profiles[0]) != revision
