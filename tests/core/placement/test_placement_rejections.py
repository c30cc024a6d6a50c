"""Why a node cannot take a profile: one constraint, what it needs and what it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.inventory.inventory import Inventory
from llmgw_core.placement.place import place
from llmgw_core.placement.result import Placement, Unschedulable
from llmgw_core.spec import (
    BinarySpec,
    EngineFound,
    EngineInfo,
    PathFact,
    PortNeed,
    PortRange,
    Profile,
    Rejection,
)

Build = Callable[..., Any]
GPU = {"gpu_class": "h100-80g", "gpus_per_node": 4, "tensor_parallel": 4}


def refusals(model: Any, inventory: Inventory, **options: Any) -> list[str]:
    """The rejections of a model that fits nowhere, as a person reads them."""
    result = place(model, inventory, **options)
    assert isinstance(result, Unschedulable)
    assert result.model == "m"
    return [str(rejection) for rejection in result.rejections]


@pytest.mark.parametrize(
    ("view", "words"),
    (
        ({"freshness": "late", "silence": 20.0}, "late (silent for 20 s)"),
        ({"freshness": "unreachable", "silence": 190.0}, "Unreachable (silent for 3m10s)"),
        ({"freshness": "lost", "silence": 301.0}, "Lost (silent for 5m01s)"),
        ({"cordoned": "fan replaced"}, "cordoned (fan replaced)"),
        ({"cordoned": ""}, "cordoned (no reason given)"),
        ({"connected": False}, "not connected (its agent has no open stream to this control plane)"),
        ({"speaks": False}, "not heard yet (its first report to this leader is awaited)"),
    ),
)
def test_a_node_in_no_state_for_it(
    view: dict[str, Any], words: str, node: Build, model: Build, fleet: Build
) -> None:
    assert refusals(model(), fleet(node("n1", view=view))) == [
        f"n1: node state: needs a node that is Ready, has {words}"
    ]


@pytest.mark.parametrize(
    "case",
    (
        (
            {"node_selector": {"rack": "a"}},
            {"labels": {"rack": "b"}},
            "node selector: needs rack=a, has rack=b",
        ),
        ({"node_selector": {"rack": "a"}}, {}, "node selector: needs rack=a, has no label rack"),
        (
            {},
            {"engines": (EngineFound(name="f", version="1", binary=("f",)),)},
            "engine plugin: needs e, has f (install the plugin llmgw-e where this node's agent runs)",
        ),
        (
            {},
            {"engines": (EngineFound(name="e", binary=("e",), problems=("libcuda.so is missing",)),)},
            "engine: needs e, has one that cannot run (libcuda.so is missing)",
        ),
        (
            {},
            {"engines": (EngineFound(name="e"),)},
            "engine: needs e, has one that cannot run (no program found)",
        ),
        ({"engine_version": ">=1.3,<2"}, {}, "engine version: needs >=1.3,<2, has 1.2"),
        (
            {"engine_version": ">=1.3"},
            {"engines": (EngineFound(name="e", binary=("e",)),)},
            "engine version: needs >=1.3, has an unknown version",
        ),
        (GPU, {}, "GPU class: needs h100-80g, has no GPU"),
        ({"cpus": 9}, {}, "CPUs: needs 9, has 8 (8 in all)"),
        ({"memory_mib": 16001}, {}, "memory: needs 16001 MiB, has 16000 MiB (16000 MiB in all)"),
        (
            {},
            {"paths": {"/m": PathFact(exists=False, error="No such file")}},
            "weights: needs /m, has no such path (No such file)",
        ),
        (
            {},
            {"port_range": PortRange(first=1, last=1), "ports_busy": (1,)},
            "ports: needs 1 in a row, has none (port_range 1-1 of the node)",
        ),
    ),
)
def test_a_node_that_lacks_something(
    case: tuple[dict[str, Any], dict[str, Any], str], node: Build, model: Build, fleet: Build
) -> None:
    profile, report, words = case
    assert refusals(model(**profile), fleet(node("n1", **report))) == [f"n1: {words}"]


def test_another_class_of_gpu(node: Build, model: Build, fleet: Build, gpu: Build) -> None:
    cards = (gpu(0, gpu_class="l40s-45g"), gpu(1, gpu_class=None))
    assert refusals(model(**GPU), fleet(node("n1", gpus=cards))) == [
        "n1: GPU class: needs h100-80g, has l40s-45g, one without a class"
    ]


def test_too_few_free_gpus_says_who_holds_which_and_which_are_out(
    node: Build, model: Build, fleet: Build, gpu: Build, shard: Build
) -> None:
    cards = (*(gpu(index) for index in range(4)), gpu(4, "row remap pending"), gpu(5, gpu_class="l40s-45g"))
    here = fleet(node("n1", gpus=cards), held=(shard("r-0f3", "n1", 0, 1),))
    assert refusals(model(**GPU), here) == [
        "n1: free GPUs: needs 4, has 2 (0,1 held by other/r-0f3; 4 out: row remap pending)"
    ]


def test_a_profile_without_a_class_gets_no_gpu(node: Build, model: Build, fleet: Build, gpu: Build) -> None:
    cards = tuple(gpu(index, gpu_class=None) for index in range(4))
    assert refusals(model(gpus_per_node=4), fleet(node("n1", gpus=cards))) == [
        "n1: free GPUs: needs 4, has 0"
    ]


def test_a_group_does_not_leave_its_nvlink_domain(
    node: Build, model: Build, fleet: Build, shard: Build
) -> None:
    here = fleet(
        node("n1", gpus=8, nvlink_domains=((0, 1, 2, 3), (4, 5, 6, 7))), held=(shard("r-a", "n1", 0, 4),)
    )
    assert refusals(model(**GPU), here) == [
        "n1: NVLink: needs groups of 4 in one domain, has 3, 3 free per domain"
    ]


def test_weights_that_nobody_asked_about_are_not_missing(node: Build, model: Build, fleet: Build) -> None:
    assert isinstance(place(model(), fleet(node("n1"))), Placement)


def test_a_hub_id_is_never_a_missing_path(node: Build, model: Build, fleet: Build) -> None:
    here = fleet(node("n1", paths={"org/model": PathFact(exists=False)}))
    assert isinstance(place(model(source="org/model"), here), Placement)


def test_the_engines_own_idea_of_versions_is_used(node: Build, model: Build, fleet: Build) -> None:
    info = EngineInfo(
        name="e", title="E", binary=BinarySpec(names=("e",)), paths=(), version_pattern=r"(?<=build-)\d+"
    )
    here = fleet(node("n1", engines=(EngineFound(name="e", version="9.9 build-7", binary=("e",)),)))
    assert isinstance(place(model(engine_version=">=build-8"), here), Placement)
    assert refusals(model(engine_version=">=build-8"), here, engines={"e": info}) == [
        "n1: engine version: needs >=build-8, has 9.9 build-7"
    ]


def test_ports_in_a_row_are_needed_for_an_engine_with_several(
    node: Build, model: Build, fleet: Build
) -> None:
    needs = (PortNeed(name="metrics", count=2), PortNeed(name="join", only_multi_node=True))
    info = EngineInfo(name="e", title="E", binary=BinarySpec(names=("e",)), paths=(), ports=needs)
    two_each = fleet(node("n1", ports_busy=(20002, 20005, 20007)))
    assert refusals(model(), two_each, engines={"e": info}) == [
        "n1: ports: needs 3 in a row, has no such block (port_range 20000-20009 of the node)"
    ]
    three = fleet(node("n1", ports_busy=(20002, 20006)))
    assert isinstance(place(model(), three, engines={"e": info}), Placement)


def test_no_node_at_all_says_what_to_start(model: Build, fleet: Build) -> None:
    assert refusals(model(), fleet()) == [
        "cluster: nodes: needs 1, has 0 (no node has registered; start `llmgw agent run` on one)"
    ]


def test_every_profile_has_its_rejections(node: Build, model: Build, fleet: Build) -> None:
    profiles = (
        Profile(name="big", engine="e", cpus=100),
        Profile(name="gpu", engine="e", **GPU),
    )
    result = place(model(*profiles), fleet(node("n1"), node("n2")))
    assert isinstance(result, Unschedulable)
    assert [(r.profile, r.node, r.constraint) for r in result.rejections] == [
        ("big", "n1", "CPUs"),
        ("big", "n2", "CPUs"),
        ("gpu", "n1", "GPU class"),
        ("gpu", "n2", "GPU class"),
    ]
    assert all(isinstance(rejection, Rejection) for rejection in result.rejections)


@pytest.mark.parametrize(
    "case",
    (
        ({"quantization": "fp8"}, "8.9", None),
        ({"quantization": "fp8"}, "8.6", "needs 8.9, has 8.6 (for fp8)"),
        ({"quantization": "fbgemm_fp8"}, "10.0", None),
        ({"kv_cache_dtype": "fp8_e4m3"}, "8.0", "needs 8.9, has 8.0 (for fp8_e4m3)"),
        ({"quantization": "nvfp4"}, "9.0", "needs 10.0, has 9.0 (for nvfp4)"),
        ({"quantization": "modelopt_fp4"}, "12.1", None),
        ({"quantization": "nvfp4", "kv_cache_dtype": "fp8"}, "9.0", "needs 10.0, has 9.0 (for nvfp4)"),
        ({"quantization": "fp8"}, None, None),
        ({"quantization": "fp8"}, "[N/A]", None),
        ({"quantization": "awq", "kv_cache_dtype": "auto"}, "7.5", None),
    ),
)
def test_number_formats_need_a_compute_capability(
    case: tuple[dict[str, str], str | None, str | None], node: Build, model: Build, fleet: Build, gpu: Build
) -> None:
    declared, card, words = case
    cards = tuple(gpu(index).model_copy(update={"compute_capability": card}) for index in range(4))
    here = fleet(node("n1", gpus=cards))
    if words is None:
        assert isinstance(place(model(**GPU, **declared), here), Placement)
    else:
        assert refusals(model(**GPU, **declared), here) == [f"n1: compute capability: {words}"]


def test_a_quantization_found_in_the_weights_counts_as_declared(
    node: Build, model: Build, fleet: Build, gpu: Build
) -> None:
    cards = tuple(gpu(index).model_copy(update={"compute_capability": "8.0"}) for index in range(4))
    paths = {"/m": PathFact(exists=True, quantization="fp8")}
    assert refusals(model(**GPU), fleet(node("n1", gpus=cards, paths=paths))) == [
        "n1: compute capability: needs 8.9, has 8.0 (for fp8)"
    ]


def test_a_cpu_profile_needs_no_compute_capability(node: Build, model: Build, fleet: Build) -> None:
    assert isinstance(place(model(quantization="fp8"), fleet(node("n1"))), Placement)
