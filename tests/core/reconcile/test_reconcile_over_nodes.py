"""Replicas over several nodes, and nodes on which a model failed: from placement to intents and orders."""

from __future__ import annotations

from llmgw_core.inventory.node_view import NodeView
from llmgw_core.reconcile.assignment import orders_for
from llmgw_core.reconcile.backoff import STEERED_AWAY
from llmgw_core.reconcile.decision import Decision
from llmgw_core.reconcile.reconcile import reconcile
from llmgw_core.reconcile.state import Actual
from llmgw_core.spec import (
    BinarySpec,
    Capability,
    EngineInfo,
    FabricPort,
    Failure,
    Gpu,
    HcaRef,
    Intent,
    PortNeed,
    Shard,
    ShardStatus,
    Stamp,
    Support,
)
from llmgw_core.testing.samples import ENGINE, EPOCH, catalog, model, profile, report, shard, status

INFO = EngineInfo(
    name=ENGINE,
    title="E",
    binary=BinarySpec(names=("e",)),
    paths=(),
    capabilities={Capability.MULTI_NODE: Support.SUPPORTED},
    ports=(PortNeed(name="rendezvous", ranks="leader", only_multi_node=True), PortNeed(name="kv")),
    max_nodes=2,
)
WIDE = model(
    profiles=(
        profile(
            name="wide",
            nodes=2,
            gpu_class="h100-80g",
            gpus_per_node=2,
            tensor_parallel=2,
            pipeline_parallel=2,
        ),
    )
)
RAIL = FabricPort(
    device="mlx5_0", port=1, link_layer="infiniband", usable=True, fabric="ib-a", fabric_strength="strong"
)


def view(name: str, *pairs: tuple[Shard, ShardStatus], **fields: object) -> NodeView:
    """A node of two GPUs on one fabric that speaks and lists `pairs`."""
    gpus = tuple(Gpu(index=index, uuid=f"{name}-{index}", gpu_class="h100-80g") for index in range(2))
    base: dict[str, object] = {
        "name": name,
        "report": report(name, address=f"10.0.0.{name[1:]}", gpus=gpus, fabric_ports=(RAIL,)),
        "speaks": True,
        "connected": True,
        "applied": Stamp(epoch=EPOCH, number=0),
        "shards": {one.shard: state for one, state in pairs},
        "specs": {one.shard: one for one, _ in pairs},
    }
    return NodeView(**(base | fields))  # type: ignore[arg-type]


def run(of: Actual, *, now: float = 1000.0, wanted: object = WIDE) -> Decision:
    """One pass."""
    return reconcile(catalog(wanted), of, now=now, jitter=0.5, new_replica="r-bbbbbbbbbb")  # type: ignore[arg-type]


def actual(*nodes: NodeView, intents: tuple[Intent, ...] = (), **fields: object) -> Actual:
    """The fleet of these nodes and intents."""
    base: dict[str, object] = {
        "epoch": EPOCH,
        "nodes": {node.name: node for node in nodes},
        "intents": {entry.shard.shard: entry for entry in intents},
        "engines": {ENGINE: INFO},
        "known_revisions": frozenset({"1-a"}),
    }
    return Actual(**(base | fields))  # type: ignore[arg-type]


def test_each_rank_has_its_intent_and_all_know_where_they_meet() -> None:
    decision = run(actual(view("n1"), view("n2")))
    leader, worker = (entry.shard for entry in decision.put)
    assert [(one.shard, one.node, one.world) for one in (leader, worker)] == [
        ("r-bbbbbbbbbb/0", "n1", 2),
        ("r-bbbbbbbbbb/1", "n2", 2),
    ]
    assert [one.rendezvous_port for one in (leader, worker)] == [20001, 20001]
    assert [one.leader_address for one in (leader, worker)] == ["10.0.0.1", "10.0.0.1"]
    assert (leader.ports, worker.ports) == ((20000, 20002, 20001), (20000, 20001))
    assert [peer.node for peer in worker.peers] == ["n1", "n2"]
    for one in (leader, worker):
        assert (one.fabric, one.fabric_strength) == ("ib-a", "strong")
        assert one.hca_ports == (HcaRef(device="mlx5_0", port=1),)
        assert [gpu.index for gpu in one.gpus] == [0, 1]


def test_the_worker_is_sent_after_the_leader_has_been_taken() -> None:
    nodes = {name: view(name) for name in ("n1", "n2")}
    decision = run(actual(*nodes.values()))
    intents = {entry.shard.shard: entry for entry in decision.put}
    leader = decision.put[0].shard
    orders = {name: orders_for(node, intents, nodes, EPOCH) for name, node in nodes.items()}
    assert [one.shard for one in orders["n1"].run] == [leader.shard]
    assert orders["n2"].run == ()
    nodes["n1"] = view("n1", (leader, status(leader, "Starting")))
    assert [one.rank for one in orders_for(nodes["n2"], intents, nodes, EPOCH).run] == [1]


def test_what_a_replica_holds_on_both_nodes_is_not_given_out_again() -> None:
    first = run(actual(view("n1"), view("n2")))
    again = run(
        actual(view("n1"), view("n2"), intents=first.put), wanted=model(replicas=2, profiles=WIDE.profiles)
    )
    assert again.put == ()
    words = [str(one) for one in again.placements["m"].rejections]
    assert words[0].startswith(
        "ib-a: nodes: needs 2, has 0 (n1: free GPUs 0 of 2 (0,1 held by m/r-bbbbbbbbbb)"
    )


def test_a_model_that_failed_on_a_node_is_placed_on_another_for_a_while() -> None:
    one = shard(nodes=("n1",))
    broken = status(one, "Failed", failure=Failure(failure="crash"))
    wanted = model()
    first = run(
        actual(view("n1", (one, broken)), view("n2"), intents=(Intent(shard=one, epoch=EPOCH, number=1),)),
        wanted=wanted,
    )
    assert dict(first.backoff["m"].failed_on) == {"n1": 1000.0 + STEERED_AWAY}
    soon = actual(view("n1"), view("n2"), backoff=first.backoff)
    assert [entry.shard.node for entry in run(soon, now=1100.0, wanted=wanted).put] == ["n2"]
    later = run(soon, now=1001.0 + STEERED_AWAY, wanted=wanted)
    assert [entry.shard.node for entry in later.put] == ["n1"]
    alone = actual(view("n1"), backoff=first.backoff)
    assert [entry.shard.node for entry in run(alone, now=1100.0, wanted=wanted).put] == ["n1"]


def test_the_rank_that_failed_is_blamed_and_not_its_peers() -> None:
    ranks = [shard(WIDE, rank=rank, nodes=("n1", "n2")) for rank in (0, 1)]
    killed = status(ranks[1], "Failed", failure=Failure(failure="killed"))
    decision = run(
        actual(
            view("n1", (ranks[0], status(ranks[0]))),
            view("n2", (ranks[1], killed)),
            intents=tuple(Intent(shard=one, epoch=EPOCH, number=1) for one in ranks),
        )
    )
    assert set(decision.backoff["m"].failed_on) == {"n2"}


def test_a_pass_starts_from_what_the_one_before_knew_of_unchanged_nodes() -> None:
    nodes = {name: view(name) for name in ("n1", "n2", "n3")}
    first = run(actual(*nodes.values()))
    taken = {entry.shard.node for entry in first.put}
    (left,) = nodes.keys() - taken
    second = run(actual(*nodes.values(), intents=first.put, before=first.inventory))
    for name in nodes:
        same = second.inventory.free(name) is first.inventory.free(name)
        assert same == (name == left)
