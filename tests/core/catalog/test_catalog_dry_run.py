"""What only an engine's plugin knows is asked of it before anything is placed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from llmgw_core.catalog.load import load_catalog
from llmgw_core.spec import (
    CatalogError,
    EngineInfo,
    Launch,
    PluginFailed,
    PortNeed,
    Problem,
    Shard,
    Unsupported,
)

CATALOG = """version: 1
models:
  m:
    source: /m
    profiles:
      - {name: one, engine: llamacpp, engine_args: {threads: 4}}
      - {name: two, engine: vllm, gpu_class: h100-80g, gpus_per_node: 2, nodes: 3, tensor_parallel: 6}
"""


def refused_by(
    error: Exception, engines: Mapping[str, EngineInfo], engine: str = "llamacpp"
) -> list[Problem]:
    """The problems of a catalog whose plugin raises for one engine."""

    def commands(shard: Shard, launch: Launch) -> None:
        if shard.engine == engine:
            raise error

    with pytest.raises(CatalogError) as caught:
        load_catalog(CATALOG, file="c.yaml", engines=engines, commands=commands)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("field", "place"),
    (
        ("engine_args.threads", (6, 62, "models.m.profiles[0].engine_args.threads")),
        ("engine_args.other", (6, 39, "models.m.profiles[0].engine_args.other")),
        ("quantization", (6, 9, "models.m.profiles[0].quantization")),
        ("source", (4, 13, "models.m.source")),
        ("kind", (3, 3, "models.m.kind")),
        ("name", (3, 3, "models.m")),
    ),
)
def test_a_refusal_of_the_plugin_has_its_place(
    field: str, place: tuple[int, int, str], engines: Mapping[str, EngineInfo]
) -> None:
    (problem,) = refused_by(Unsupported(field, "llmgw sets it itself"), engines)
    assert (problem.line, problem.column, problem.path) == place
    assert problem.message == "llmgw sets it itself"


def test_a_plugin_that_fails_is_named(engines: Mapping[str, EngineInfo]) -> None:
    (problem,) = refused_by(PluginFailed("vllm", "llmgw_engine_commands", "boom"), engines, "vllm")
    assert problem.path == "models.m.profiles[1].engine"
    assert "plugin vllm: llmgw_engine_commands failed: boom" in problem.message


def test_plugins_see_a_whole_shard_of_the_leader_and_of_a_worker(engines: Mapping[str, EngineInfo]) -> None:
    seen: list[tuple[Shard, Launch]] = []
    needs = (PortNeed(name="each", count=2), PortNeed(name="head", ranks="leader", only_multi_node=True))
    known = {**engines, "vllm": engines["vllm"].model_copy(update={"ports": needs})}
    load_catalog(CATALOG, file="c", engines=known, commands=lambda *asked: seen.append(asked))
    (one, one_launch), (leader, launch), (worker, _) = seen
    assert (one.engine, one.world, one.gpus, one.rendezvous_port) == ("llamacpp", 1, (), None)
    assert one_launch.gpu_facts == ()
    assert (leader.rank, worker.rank, leader.world, len(leader.peers)) == (0, 1, 3, 3)
    assert leader.node == "node0"
    assert worker.node == "node1"
    assert [gpu.index for gpu in launch.gpu_facts] == [ref.index for ref in leader.gpus] == [0, 1]
    assert set(leader.extra_ports) == {"each", "head"}
    assert set(worker.extra_ports) == {"each"}
    assert len(leader.ports) == len(set(leader.ports)) == 5


def test_plugins_are_not_asked_about_a_catalog_with_other_errors(engines: Mapping[str, EngineInfo]) -> None:
    def commands(shard: Shard, launch: Launch) -> None:
        raise AssertionError("asked")

    with pytest.raises(CatalogError, match="two"):
        load_catalog(CATALOG.replace("name: one", "name: two"), file="c", engines=engines, commands=commands)
