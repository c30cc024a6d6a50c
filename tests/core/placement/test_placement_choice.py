"""Which node, which GPUs, which ports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.placement.place import place
from llmgw_core.placement.result import NodePlacement, Placement
from llmgw_core.placement.steering import Steering
from llmgw_core.spec import BinarySpec, EngineInfo, GpuRef, PortNeed, Profile

Build = Callable[..., Any]


def gpus_of(placement: Any) -> list[int]:
    """Indices of the GPUs that a replica got."""
    assert isinstance(placement, Placement)
    return [ref.index for ref in placement.nodes[0].gpus]


def test_a_cpu_profile_gets_cpus_memory_and_a_port(node: Build, model: Build, fleet: Build) -> None:
    result = place(model(cpus=3, memory_mib=500), fleet(node("n1")))
    assert isinstance(result, Placement)
    assert result.nodes == (
        NodePlacement(node="n1", address="address-of-n1", gpus=(), cpus=3, memory_mib=500, http_port=20000),
    )
    assert result.rejections == ()


def test_the_fullest_node_that_fits_is_taken(node: Build, model: Build, fleet: Build, shard: Build) -> None:
    here = fleet(
        node("empty", gpus=8),
        node("half", gpus=8),
        node("full", gpus=8),
        held=(shard("r-a", "half", 0, 1, 2, 3), shard("r-b", "full", *range(7))),
    )
    result = place(model(gpu_class="h100-80g", gpus_per_node=2, tensor_parallel=2), here)
    assert isinstance(result, Placement)
    assert result.nodes[0].node == "half"
    assert gpus_of(result) == [4, 5]
    assert [(score.candidate, score.packing) for score in result.scores] == [("half", 1.0), ("empty", 0.5)]
    assert [rejection.node for rejection in result.rejections] == ["full"]


def test_a_cpu_profile_leaves_gpu_nodes_alone(node: Build, model: Build, fleet: Build) -> None:
    result = place(model(), fleet(node("a", gpus=8, cpus=4), node("b", cpus=64)))
    assert isinstance(result, Placement)
    assert result.nodes[0].node == "b"


def test_the_fuller_by_cpus_then_memory_then_name(
    node: Build, model: Build, fleet: Build, shard: Build
) -> None:
    held = (shard("r-a", "c", cpus=2),)
    result = place(model(), fleet(node("a"), node("b", memory_mib=1000), node("c"), node("d"), held=held))
    assert isinstance(result, Placement)
    assert [score.candidate for score in result.scores] == ["c", "b", "a", "d"]


def test_the_first_profile_that_fits_wins(node: Build, model: Build, fleet: Build) -> None:
    profiles = (
        Profile(name="gpu", engine="e", gpu_class="h100-80g", gpus_per_node=1),
        Profile(name="cpu", engine="e"),
        Profile(name="never tried", engine="e"),
    )
    result = place(model(*profiles), fleet(node("n1")))
    assert isinstance(result, Placement)
    assert result.profile.name == "cpu"
    assert [(r.profile, r.constraint) for r in result.rejections] == [("gpu", "GPU class")]


def test_the_lowest_free_gpus_of_the_class_are_taken(
    node: Build, model: Build, fleet: Build, gpu: Build, shard: Build
) -> None:
    cards = (gpu(0, gpu_class="l40s-45g"), gpu(1), gpu(2, "ecc"), gpu(3), gpu(4), gpu(5))
    here = fleet(node("n1", gpus=cards), held=(shard("r-a", "n1", 3),))
    result = place(model(gpu_class="h100-80g", gpus_per_node=2, tensor_parallel=2), here)
    assert isinstance(result, Placement)
    assert result.nodes[0].gpus == (GpuRef(index=1, uuid="GPU-1"), GpuRef(index=4, uuid="GPU-4"))


DOMAINS = ((0, 1, 2, 3), (4, 5, 6, 7))


@pytest.mark.parametrize(
    "case",
    (
        # The tightest domain that fits.
        ((2, 1), DOMAINS, (4, 5), [6, 7]),
        ((2, 1), DOMAINS, (0,), [1, 2]),
        # One domain for all groups where there is one.
        ((2, 2), DOMAINS, (0,), [4, 5, 6, 7]),
        # Else each group whole in one domain.
        ((2, 2), DOMAINS, (0, 4), [5, 6, 1, 2]),
        ((4, 2), DOMAINS, (), [4, 5, 6, 7, 0, 1, 2, 3]),
        # Without groups, without domains, or with domains too small for any: the lowest indices.
        ((1, 2), DOMAINS, (0,), [1, 2]),
        ((2, 1), (), (0,), [1, 2]),
        ((4, 1), ((0, 1), (2, 3), (4, 5), (6, 7)), (0,), [1, 2, 3, 4]),
        # A report that names a GPU in two domains cannot have it given out twice.
        ((2, 2), ((0, 1, 2), (2, 3)), (4, 5, 6, 7), None),
    ),
)
def test_groups_stay_inside_nvlink_domains(
    case: tuple[tuple[int, int], tuple[tuple[int, ...], ...], tuple[int, ...], list[int] | None],
    node: Build,
    model: Build,
    fleet: Build,
    shard: Build,
) -> None:
    (tensor, pipeline), domains, held, expected = case
    here = fleet(node("n1", gpus=8, nvlink_domains=domains), held=(shard("r-a", "n1", *held),))
    wanted = model(
        gpu_class="h100-80g",
        gpus_per_node=tensor * pipeline,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
    )
    result = place(wanted, here)
    assert (gpus_of(result) if isinstance(result, Placement) else None) == expected


def test_ports_are_the_lowest_free_block(node: Build, model: Build, fleet: Build, shard: Build) -> None:
    needs = (PortNeed(name="metrics", count=2), PortNeed(name="join", only_multi_node=True))
    info = EngineInfo(name="e", title="E", binary=BinarySpec(names=("e",)), paths=(), ports=needs)
    here = fleet(node("n1", ports_busy=(20001,)), held=(shard("r-a", "n1", http_port=20004),))
    result = place(model(), here, engines={"e": info})
    assert isinstance(result, Placement)
    assert result.nodes[0].http_port == 20005
    assert result.nodes[0].extra_ports == {"metrics": (20006, 20007)}
    assert result.nodes[0].rendezvous_port is None


def test_on_one_node_the_engines_rendezvous_is_an_extra_port(node: Build, model: Build, fleet: Build) -> None:
    needs = (PortNeed(name="rendezvous", ranks="leader"),)
    info = EngineInfo(name="e", title="E", binary=BinarySpec(names=("e",)), paths=(), ports=needs)
    result = place(model(), fleet(node("n1")), engines={"e": info})
    assert isinstance(result, Placement)
    assert result.nodes[0].rendezvous_port is None
    assert result.nodes[0].extra_ports == {"rendezvous": (20001,)}


def test_a_node_on_which_the_model_failed_comes_after_all_others(
    node: Build, model: Build, fleet: Build
) -> None:
    here = fleet(node("a", cpus=2), node("b", cpus=4), node("c", cpus=8))
    steering = Steering(failed={("m", "a"): 100.0, ("m", "b"): 20.0, ("other", "c"): 100.0}, now=30.0)
    result = place(model(), here, steering=steering)
    assert isinstance(result, Placement)
    assert [(score.candidate, score.penalty) for score in result.scores] == [
        ("b", 0.0),
        ("c", 0.0),
        ("a", 1.0),
    ]
    assert result.scores[-1].avoided == "the model failed there; steered away for another 1m10s"
    alone = place(model(), fleet(node("a")), steering=steering)
    assert isinstance(alone, Placement)
    assert alone.nodes[0].node == "a"
