"""The explanation of a placement, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.catalog.model import Model
from llmgw_core.inventory.inventory import Inventory
from llmgw_core.placement import remedies
from llmgw_core.placement.explain import explain
from llmgw_core.placement.lines import explanation_lines, in_short
from llmgw_core.placement.place import place
from llmgw_core.placement.result import Unschedulable
from llmgw_core.placement.steering import Steering
from llmgw_core.spec import Profile

Build = Callable[..., Any]

GPU = Profile(name="h100-tp2", engine="e", gpu_class="h100-80g", gpus_per_node=2, tensor_parallel=2)
CPU = Profile(name="cpu", engine="e", cpus=2, memory_mib=512)
LAST = Profile(name="last", engine="e")


def shown(model: Model, fleet: Inventory) -> tuple[str, ...]:
    """What a person reads, after a way over the wire."""
    return tuple(explanation_lines(json.loads(json.dumps(explain(model, place(model, fleet))))))


def test_what_fits_nowhere_shows_a_table_of_reasons(
    node: Build, model: Build, fleet: Build, shard: Build
) -> None:
    wanted = model(GPU, CPU.model_copy(update={"cpus": 99}))
    here = fleet(
        node("node01", gpus=3),
        node("n2", view={"cordoned": "fan replaced"}),
        held=(shard("r-0f3", "node01", 0, 1),),
    )
    assert shown(wanted, here) == (
        "1  h100-tp2 · e · 1 node × 2 h100-80g · does not fit",
        "   n2       node state   needs a node that is Ready, has cordoned   fan replaced",
        "   node01   free GPUs    needs 2, has 1                             0,1 held by other/r-0f3",
        "2  cpu · e · 1 node × 99 CPUs, 512 MiB · does not fit",
        "   n2       node state   needs a node that is Ready, has cordoned   fan replaced",
        "   node01   CPUs         needs 99, has 7                            8 in all",
        "It would fit after any one of: stop other/r-0f3",
    )


def test_what_fits_shows_where_and_what_was_passed_over(node: Build, model: Build, fleet: Build) -> None:
    wanted = model(GPU, CPU, LAST)
    assert shown(wanted, fleet(node("n1"))) == (
        "1  h100-tp2 · e · 1 node × 2 h100-80g · does not fit",
        "   n1   GPU class   needs h100-80g, has no GPU",
        "2  cpu · e · 1 node × 2 CPUs, 512 MiB · fits",
        "   on n1 2 CPUs, port 20000",
        "3  last · e · 1 node × 1 CPU · not tried",
    )


def test_gpus_are_named_by_index(node: Build, model: Build, fleet: Build) -> None:
    wanted = model(GPU)
    assert shown(wanted, fleet(node("n1", gpus=2)))[1] == "   on n1 GPU 0,1, port 20000"


def test_the_data_is_json_and_complete(node: Build, model: Build, fleet: Build) -> None:
    wanted = model(GPU, CPU)
    data = explain(wanted, place(wanted, fleet(node("n1"))))
    assert json.loads(json.dumps(data)) == data
    assert (data["model"], data["fits"], data["profile"]) == ("m", True, "cpu")
    assert data["nodes"] == [
        {
            "node": "n1",
            "address": "address-of-n1",
            "gpus": [],
            "cpus": 2,
            "memory_mib": 512,
            "http_port": 20000,
            "rendezvous_port": None,
            "fabric": None,
            "hca_ports": [],
        }
    ]
    score = {"node": "n1", "packing": 1.0, "plugins": [], "penalty": 0.0, "avoided": "", "total": 1.0}
    assert data["scores"] == [score]
    assert data["remedies"] == []
    assert [profile["outcome"] for profile in data["profiles"]] == ["does not fit", "fits"]
    assert data["profiles"][0]["rejections"] == [
        {
            "node": "n1",
            "constraint": "GPU class",
            "needed": "h100-80g",
            "had": "no GPU",
            "detail": "",
            "fabric": None,
        }
    ]


def test_without_a_place_there_is_neither_profile_nor_node(model: Build, fleet: Build) -> None:
    data = explain(model(), place(model(), fleet()))
    assert (data["fits"], data["profile"], data["nodes"], data["scores"]) == (False, None, [], [])
    assert data["profiles"][0]["rejections"][0]["node"] == "cluster"


def test_many_rows_that_say_the_same_are_summed_up(node: Build, model: Build, fleet: Build) -> None:
    nodes = [node(f"n{number:02}", gpus=number % 2) for number in range(30)]
    assert shown(model(GPU), fleet(*nodes)) == (
        "1  h100-tp2 · e · 1 node × 2 h100-80g · does not fit",
        "   15 nodes   GPU class   needs h100-80g, has no GPU   n00, n02, n04, …",
        "   15 nodes   free GPUs   needs 2, has 1               n01, n03, n05, …",
    )


def test_a_choice_that_more_than_packing_made_shows_its_scores(
    node: Build, model: Build, fleet: Build
) -> None:
    steering = Steering(failed={("m", "n1"): 60.0})
    wanted = model(CPU)
    result = place(wanted, fleet(node("n1"), node("n2")), steering=steering)
    assert tuple(explanation_lines(explain(wanted, result))) == (
        "1  cpu · e · 1 node × 2 CPUs, 512 MiB · fits",
        "   on n2 2 CPUs, port 20000",
        "   score 0.50  n2: packing 0.50",
        "   score 0.00  n1: packing 1.00, −1 (the model failed there; steered away for another 1m)",
    )


def test_remedies_are_only_what_would_help_and_the_cheapest_kind_comes_first(
    node: Build, model: Build, fleet: Build, gpu: Build, shard: Build
) -> None:
    here = fleet(
        node("a", gpus=2, view={"cordoned": ""}),
        node("b", gpus=1, view={"cordoned": ""}),
        node("c", gpus=2),
        node("d", gpus=(gpu(0), gpu(1, "ecc"))),
        node("e", gpus=(gpu(0, "ecc"), gpu(1, "ecc"))),
        held=(shard("r-c", "c", 1),),
    )
    result = place(model(GPU), here)
    assert isinstance(result, Unschedulable)
    assert result.remedies == ("uncordon a", "stop other/r-c", "repair GPU 1 on d")


def test_the_search_for_remedies_is_bounded(
    node: Build, model: Build, fleet: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = fleet(*(node(f"n{number}", view={"cordoned": ""}) for number in range(20)))
    result = place(model(), here)
    assert isinstance(result, Unschedulable)
    assert len(result.remedies) == remedies.MAX_FOUND
    monkeypatch.setattr(remedies, "MAX_LOOKS", 3 * (remedies.TRIAL + 1))
    again = place(model(), here)
    assert isinstance(again, Unschedulable)
    assert again.remedies == ("uncordon n0", "uncordon n1", "uncordon n10")


def test_a_sentence_has_room_for_three(node: Build, model: Build, fleet: Build) -> None:
    rejections = place(model(GPU), fleet(*(node(f"n{number}") for number in range(5)))).rejections
    one = "GPU class: needs h100-80g, has no GPU"
    assert in_short(rejections[:2]) == f"n0: {one}; n1: {one}"
    assert in_short(rejections) == f"n0: {one}; n1: {one}; n2: {one}; and 2 more"
