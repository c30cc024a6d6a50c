"""Replicas over several nodes: one fabric, the emptiest nodes, what every rank gets, and why not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from llmgw_core.catalog.model import Model
from llmgw_core.inventory.inventory import Inventory
from llmgw_core.placement.explain import explain
from llmgw_core.placement.lines import explanation_lines
from llmgw_core.placement.place import place
from llmgw_core.placement.result import Placement, PluginScore, Unschedulable
from llmgw_core.placement.steering import Steering
from llmgw_core.plugins import Outcome
from llmgw_core.spec import (
    Ask,
    BinarySpec,
    Candidate,
    Capability,
    EngineFound,
    EngineInfo,
    FabricPort,
    Gpu,
    HcaRef,
    PortNeed,
    PortRange,
    Profile,
    Reason,
    Rejection,
    Score,
    Support,
)

Build = Callable[..., Any]
ENGINE = EngineInfo(
    name="e",
    title="E",
    binary=BinarySpec(names=("e",)),
    paths=(),
    capabilities={Capability.MULTI_NODE: Support.SUPPORTED},
    ports=(
        PortNeed(name="rendezvous", scope="all_ranks_interface", ranks="leader", only_multi_node=True),
        PortNeed(name="kv"),
    ),
    max_nodes=4,
)
TWO = Profile(
    name="two",
    engine="e",
    gpu_class="h100-80g",
    nodes=2,
    gpus_per_node=4,
    tensor_parallel=4,
    pipeline_parallel=2,
)
CPUS = Profile(name="cpus", engine="e", nodes=2, cpus=3)


def rail(device: str = "mlx5_0", fabric: str | None = "ib-a", **fields: Any) -> FabricPort:
    """An active InfiniBand port on a labelled fabric; with a reason it is not usable."""
    reason = fields.pop("reason", None)
    reasons = (Reason(code=reason, text="DOWN"),) if reason else ()
    base: dict[str, Any] = {
        "device": device,
        "port": 1,
        "link_layer": "infiniband",
        "active": not reason,
        "usable": not reason,
        "fabric": fabric,
        "fabric_strength": "label" if fabric else None,
        "reasons": reasons,
    }
    return FabricPort(**{**base, **fields})


def placed(model: Model, fleet: Inventory, **options: Any) -> Placement:
    """The placement of a model that fits."""
    result = place(model, fleet, engines={"e": ENGINE}, **options)
    assert isinstance(result, Placement), [str(one) for one in result.rejections]
    return result


def names(model: Model, fleet: Inventory, **options: Any) -> list[str]:
    """Nodes of the replica in the order of their ranks."""
    return [node.node for node in placed(model, fleet, **options).nodes]


def refused(model: Model, fleet: Inventory, info: EngineInfo = ENGINE) -> list[str]:
    """The rejections of a model that fits nowhere, fabrics first."""
    result = place(model, fleet, engines={"e": info})
    assert isinstance(result, Unschedulable)
    return [str(one) for one in result.rejections]


def test_every_rank_gets_its_share_and_the_leader_the_rendezvous_port(
    node: Build, model: Build, fleet: Build
) -> None:
    ports = (rail("mlx5_0"), rail("mlx5_1"))
    result = placed(
        model(TWO),
        fleet(
            node("n1", gpus=8, fabric_ports=ports),
            node("n2", gpus=8, fabric_ports=(rail("ibp26s0"),), ports_busy=(20000,)),
        ),
    )
    leader, worker = result.nodes
    assert (leader.node, worker.node) == ("n1", "n2")
    assert [gpu.index for gpu in leader.gpus] == [gpu.index for gpu in worker.gpus] == [0, 1, 2, 3]
    assert (leader.http_port, leader.rendezvous_port, leader.extra_ports) == (20000, 20001, {"kv": (20002,)})
    assert (worker.http_port, worker.rendezvous_port, worker.extra_ports) == (20001, None, {"kv": (20002,)})
    assert leader.hca_ports == (HcaRef(device="mlx5_0", port=1), HcaRef(device="mlx5_1", port=1))
    assert worker.hca_ports == (HcaRef(device="ibp26s0", port=1),)
    assert (leader.fabric, leader.fabric_strength) == ("ib-a", "label")


def test_nodes_of_two_fabrics_never_meet(node: Build, model: Build, fleet: Build) -> None:
    here = fleet(
        node("n1", gpus=8, fabric_ports=(rail(fabric="ib-a"),)),
        node("n2", gpus=8, fabric_ports=(rail(fabric="ib-b"),)),
    )
    assert refused(model(TWO), here) == [
        "ib-a: nodes: needs 2, has 1",
        "ib-b: nodes: needs 2, has 1",
    ]


def test_only_ports_of_the_chosen_fabric_are_held(node: Build, model: Build, fleet: Build) -> None:
    both = (rail("mlx5_0", "ib-a"), rail("mlx5_1", "storage"), rail("mlx5_2", "ib-a", reason="down"))
    here = fleet(node("n1", gpus=8, fabric_ports=both), node("n2", gpus=8, fabric_ports=both[:1]))
    assert [one.hca_ports for one in placed(model(TWO), here).nodes] == [
        (HcaRef(device="mlx5_0", port=1),)
    ] * 2


@pytest.mark.parametrize("confirmed", (False, True))
def test_a_weak_key_joins_nodes_only_once_it_is_confirmed(
    confirmed: bool, node: Build, model: Build, fleet: Build
) -> None:
    weak = (rail(fabric="roce:10.0.0.0/24", link_layer="roce", fabric_strength="weak"),)
    nodes = {name: node(name, gpus=8, fabric_ports=weak) for name in ("n1", "n2")}
    here = Inventory(nodes, (), frozenset({"roce:10.0.0.0/24"} if confirmed else ()))
    if confirmed:
        assert [one.fabric_strength for one in placed(model(TWO), here).nodes] == ["weak", "weak"]
    else:
        detail = "roce:10.0.0.0/24: label it under `fabrics` in agent.yaml if it is one network"
        assert refused(model(TWO), here) == [
            "cluster: fabric: needs one that joins 2 nodes, has none "
            "(no node has an adapter on a fabric that is certain)",
            f"n1: fabric: needs a certain key, has a weak key ({detail})",
            f"n2: fabric: needs a certain key, has a weak key ({detail})",
        ]


def test_a_label_that_reads_like_a_weak_key_does_not_vouch_for_it(
    node: Build, model: Build, fleet: Build
) -> None:
    here = fleet(
        node("n1", gpus=8, fabric_ports=(rail(fabric="x"),)),
        node("n2", gpus=8, fabric_ports=(rail(fabric="x", fabric_strength="weak"),)),
    )
    assert refused(model(TWO), here)[0] == "x: nodes: needs 2, has 1"


def test_infiniband_and_roce_under_one_label_are_not_mixed(node: Build, model: Build, fleet: Build) -> None:
    infiniband, roce = rail("mlx5_0"), rail("mlx5_1", link_layer="roce")
    apart = fleet(node("n1", gpus=8, fabric_ports=(infiniband,)), node("n2", gpus=8, fabric_ports=(roce,)))
    assert refused(model(TWO), apart) == [
        "ib-a: nodes: needs 2, has 1 (they cannot be mixed: infiniband, roce)"
    ]
    here = fleet(
        node("n1", gpus=8, fabric_ports=(infiniband, roce)), node("n2", gpus=8, fabric_ports=(roce,))
    )
    assert [one.hca_ports for one in placed(model(TWO), here).nodes] == [
        (HcaRef(device="mlx5_1", port=1),)
    ] * 2


def test_engines_of_two_versions_do_not_meet(node: Build, model: Build, fleet: Build) -> None:
    other = (EngineFound(name="e", version="1.3", binary=("e",)),)
    nodes = [node(name, gpus=8, fabric_ports=(rail(),)) for name in ("n1", "n3")]
    newer = node("n2", gpus=8, fabric_ports=(rail(),), engines=other)
    assert names(model(TWO), fleet(*nodes, newer)) == ["n1", "n3"]
    assert refused(model(TWO), fleet(nodes[0], newer)) == [
        "ib-a: nodes: needs 2, has 1 (they cannot be mixed: 1.2, 1.3)"
    ]


def test_the_emptiest_nodes_are_taken(node: Build, model: Build, fleet: Build, shard: Build) -> None:
    nodes = [node(name, gpus=8, fabric_ports=(rail(),)) for name in ("n1", "n2", "n3", "n4")]
    held = (shard("r-a", "n1", 0), shard("r-b", "n3", 0, 1))
    assert names(model(TWO), fleet(*nodes, held=held)) == ["n2", "n4"]


def test_the_fabric_of_which_the_largest_share_is_left_is_taken(
    node: Build, model: Build, fleet: Build, shard: Build
) -> None:
    small = [node(name, gpus=8, fabric_ports=(rail(fabric="a-small"),)) for name in ("a1", "a2")]
    large = [node(name, gpus=8, fabric_ports=(rail(fabric="large"),)) for name in ("b1", "b2", "b3")]
    result = placed(model(TWO), fleet(*small, *large))
    assert [node.node for node in result.nodes] == ["b1", "b2"]
    assert [(score.candidate, round(score.packing, 2)) for score in result.scores] == [
        ("b1 + b2 (large)", 0.67),
        ("a1 + a2 (a-small)", 0.5),
    ]
    held = tuple(shard(f"r-{name}", name, *range(4)) for name in ("b1", "b2", "b3"))
    assert placed(model(TWO), fleet(*small, *large, held=held)).nodes[0].fabric == "a-small"


def test_a_fabric_that_cannot_take_it_leaves_it_to_another(
    node: Build, model: Build, fleet: Build, gpu: Build
) -> None:
    large = [node(name, gpus=8, cpus=0, fabric_ports=(rail(fabric="large"),)) for name in ("b1", "b2", "b3")]
    small = [node(name, gpus=8, fabric_ports=(rail(fabric="small"),)) for name in ("a1", "a2")]
    assert names(model(TWO), fleet(*large, *small)) == ["a1", "a2"]


def test_a_node_without_room_for_the_leaders_ports_is_a_worker(
    node: Build, model: Build, fleet: Build
) -> None:
    tight = node("n1", gpus=8, fabric_ports=(rail(),), port_range=PortRange(first=1, last=2))
    wide = node("n2", gpus=8, fabric_ports=(rail(),))
    assert names(model(TWO), fleet(tight, wide)) == ["n2", "n1"]
    other = node("n3", gpus=8, fabric_ports=(rail(),), port_range=PortRange(first=1, last=2))
    assert refused(model(TWO), fleet(tight, other)) == [
        "ib-a: nodes: needs 2, has 2 (none of them has the leader's ports in a row)"
    ]


def test_adapters_are_held_like_gpus(node: Build, model: Build, fleet: Build, shard: Build) -> None:
    nodes = [node(name, gpus=8, fabric_ports=(rail(),)) for name in ("n1", "n2")]
    held = shard("r-a", "n2", 7, hca_ports=(HcaRef(device="mlx5_0", port=1),))
    assert refused(model(TWO), fleet(*nodes, held=(held,))) == [
        "ib-a: nodes: needs 2, has 1 (n2: mlx5_0:1 held by other/r-a)",
        "n2: fabric: needs a free port, has none (mlx5_0:1 held by other/r-a)",
    ]


def test_groups_that_span_nodes_stay_in_one_domain_of_each(
    node: Build, model: Build, fleet: Build, shard: Build
) -> None:
    domains = ((0, 1, 2, 3), (4, 5, 6, 7))
    nodes = [node(name, gpus=8, nvlink_domains=domains, fabric_ports=(rail(),)) for name in ("n1", "n2")]
    across = TWO.model_copy(update={"tensor_parallel": 8, "pipeline_parallel": 1})
    both = {Capability.MULTI_NODE: Support.SUPPORTED, Capability.TP_ACROSS_NODES: Support.SUPPORTED}
    able = ENGINE.model_copy(update={"capabilities": both})
    here = fleet(*nodes, held=(shard("r-a", "n1", 0), shard("r-b", "n2", 5)))
    result = place(model(across), here, engines={"e": able})
    assert isinstance(result, Placement)
    assert [[gpu.index for gpu in one.gpus] for one in result.nodes] == [[4, 5, 6, 7], [0, 1, 2, 3]]


@pytest.mark.parametrize(
    "case",
    (
        ({}, {"capabilities": {}}, "needs 2 nodes, has E: 1 node"),
        ({"nodes": 5}, {}, "needs 5 nodes, has E: at most 4"),
        (
            {"tensor_parallel": 8, "pipeline_parallel": 1},
            {},
            "needs tensor-parallel groups of 8, has 4 GPUs a node (E keeps a group on one node)",
        ),
    ),
)
def test_what_the_engine_cannot_is_refused_for_all_nodes_at_once(
    case: tuple[dict[str, Any], dict[str, Any], str], node: Build, model: Build, fleet: Build
) -> None:
    change, engine, words = case
    nodes = [node(name, gpus=8, fabric_ports=(rail(),)) for name in ("n1", "n2")]
    info = ENGINE.model_copy(update=engine)
    assert refused(model(TWO.model_copy(update=change)), fleet(*nodes), info) == [f"cluster: engine: {words}"]


def test_cpu_engines_meet_over_the_management_network_where_no_node_has_adapters(
    node: Build, model: Build, fleet: Build
) -> None:
    down = rail(reason="down", fabric=None)
    result = placed(model(CPUS), fleet(node("n1"), node("n2", fabric_ports=(down,)), node("n3", cpus=2)))
    assert [(one.node, one.fabric, one.hca_ports) for one in result.nodes] == [
        ("n1", None, ()),
        ("n2", None, ()),
    ]


def test_cpu_engines_of_two_networks_do_not_meet_and_hold_no_adapters(
    node: Build, model: Build, fleet: Build
) -> None:
    attached = node("n1", fabric_ports=(rail(),))
    weak = node("n2", fabric_ports=(rail(fabric_strength="weak"),))
    assert refused(model(CPUS), fleet(attached, weak, node("n3"))) == [
        "ib-a: nodes: needs 2, has 1",
        "no fabric: nodes: needs 2, has 1",
        "n2: fabric: needs a certain key, has a weak key "
        "(ib-a: label it under `fabrics` in agent.yaml if it is one network)",
    ]
    other = node("n4", fabric_ports=(rail(),))
    result = placed(model(CPUS), fleet(attached, other))
    assert [(one.fabric, one.hca_ports) for one in result.nodes] == [("ib-a", ())] * 2


def test_the_explanation_is_a_row_for_each_fabric_and_what_would_change_it(
    node: Build, model: Build, fleet: Build, gpu: Build, shard: Build
) -> None:
    def cards(*broken: int) -> tuple[Gpu, ...]:
        return tuple(gpu(index, *(["row remap pending"] if index in broken else [])) for index in range(4))

    here = fleet(
        node("n1", gpus=cards(), fabric_ports=(rail("mlx5_0"),)),
        node("n2", gpus=cards(), fabric_ports=(rail("mlx5_1", reason="down"),)),
        node("n3", gpus=cards(), fabric_ports=(rail(fabric="ib-b"),)),
        node("n4", gpus=cards(), fabric_ports=(rail(fabric="ib-b"),), view={"cordoned": "fan replaced"}),
        node("n5", gpus=cards(), fabric_ports=(rail(fabric="ib-c"),)),
        node("n6", gpus=cards(2), fabric_ports=(rail(fabric="ib-c"),)),
        node("n7", gpus=cards(), fabric_ports=(rail(fabric="ib-c"),)),
        node("n8", gpus=cards()),
        held=(shard("r-0f3", "n7", 0, 1),),
    )
    wanted = model(TWO)
    data = json.loads(json.dumps(explain(wanted, place(wanted, here, engines={"e": ENGINE}))))
    assert list(explanation_lines(data)) == [
        "1  two · e · 2 nodes × 4 h100-80g on one fabric · does not fit",
        "   ib-a   nodes    needs 2, has 1                  n2: mlx5_1:1 DOWN",
        "   ib-b   nodes    needs 2, has 1                  n4 cordoned: fan replaced",
        "   ib-c   nodes    needs 2, has 1                  "
        "n6: free GPUs 3 of 4 (2 out: row remap pending); n7: free GPUs 2 of 4 (0,1 held by other/r-0f3)",
        "   n8     fabric   needs a certain key, has none   no adapter was found",
        "It would fit after any one of: uncordon n4 · stop other/r-0f3 · repair GPU 2 on n6"
        " · repair mlx5_1:1 on n2",
    ]


@dataclass(frozen=True)
class Policies:
    """Rejects one node, and scores others."""

    against: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)

    def filter(self, ask: Ask, candidates: tuple[Candidate, ...]) -> tuple[Outcome, ...]:
        """Rejects `against` where it is a candidate."""
        assert all(one.fabric for one in candidates)
        said = Rejection(profile="p", node=self.against, constraint="licence", needed="1", had="0")
        return (Outcome("guard", (said,)),)

    def score(self, ask: Ask, candidates: tuple[Candidate, ...]) -> tuple[Outcome, ...]:
        """What the test wants."""
        given = tuple(Score(candidate=name, score=score) for name, score in self.scores.items())
        return (Outcome("warm", given),)


def test_plugins_move_the_nodes_of_a_fabric_and_the_fabric(node: Build, model: Build, fleet: Build) -> None:
    large = [node(name, gpus=8, fabric_ports=(rail(fabric="large"),)) for name in ("b1", "b2", "b3", "b4")]
    small = [node(name, gpus=8, fabric_ports=(rail(fabric="small"),)) for name in ("a1", "a2")]
    here = fleet(*large, *small)
    inside = placed(model(TWO), here, plugins=Policies(scores={"b3": 0.9, "b4": 0.9}))
    assert [got.node for got in inside.nodes] == ["b3", "b4"]
    assert inside.scores[0].plugins == (PluginScore("warm", 0.9),)
    across = placed(model(TWO), here, plugins=Policies(scores={"a1": 1.0, "a2": 0.5}))
    assert [got.node for got in across.nodes] == ["a1", "a2"]
    assert [(one.candidate, round(one.total, 2)) for one in across.scores] == [
        ("a1 + a2 (small)", 1.25),
        ("b1 + b2 (large)", 0.75),
    ]


def test_a_node_that_a_plugin_rejects_is_in_no_team(node: Build, model: Build, fleet: Build) -> None:
    nodes = [node(name, gpus=8, fabric_ports=(rail(),)) for name in ("n1", "n2", "n3")]
    assert names(model(TWO), fleet(*nodes), plugins=Policies(against="n1")) == ["n2", "n3"]
    result = place(model(TWO), fleet(*nodes[:2]), engines={"e": ENGINE}, plugins=Policies(against="n1"))
    assert [str(one) for one in result.rejections] == [
        "ib-a: nodes: needs 2, has 1 (n1: plugin guard: licence 0 of 1)",
        "n1: plugin guard: licence: needs 1, has 0",
    ]


def test_a_team_without_the_node_on_which_the_model_failed_is_preferred(
    node: Build, model: Build, fleet: Build
) -> None:
    nodes = [node(name, gpus=8, fabric_ports=(rail(),)) for name in ("n1", "n2", "n3")]
    steering = Steering(failed={("m", "n2"): 60.0}, now=10.0)
    assert names(model(TWO), fleet(*nodes), steering=steering) == ["n1", "n3"]
    result = placed(model(TWO), fleet(*nodes[:2]), steering=steering)
    assert [got.node for got in result.nodes] == ["n1", "n2"]
    assert result.scores[0].avoided == "n2: the model failed there; steered away for another 50 s"
    assert result.scores[0].penalty == 1.0


def test_a_fabric_that_needs_the_node_on_which_the_model_failed_gives_way(
    node: Build, model: Build, fleet: Build
) -> None:
    large = [node(name, gpus=8, fabric_ports=(rail(fabric="large"),)) for name in ("b1", "b2")]
    spare = node("b3", gpus=8, cpus=0, fabric_ports=(rail(fabric="large"),))
    small = [node(name, gpus=8, fabric_ports=(rail(fabric="small"),)) for name in ("c1", "c2")]
    here = fleet(*large, spare, *small)
    assert names(model(TWO), here) == ["b1", "b2"]
    assert names(model(TWO), here, steering=Steering(failed={("m", "b2"): 9.0})) == ["c1", "c2"]
