"""What is free on a node: hardware minus what shards hold."""

from __future__ import annotations

from typing import Any

import pytest
from llmgw_core.inventory.free import Free
from llmgw_core.inventory.inventory import Inventory
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.spec import (
    Epoch,
    FabricPort,
    Gpu,
    GpuRef,
    HcaRef,
    NodeReport,
    Peer,
    PortRange,
    Profile,
    Reason,
    Shard,
)


def gpu(index: int, **fields: Any) -> Gpu:
    """A healthy H100."""
    return Gpu(index=index, uuid=f"GPU-{index}", gpu_class="h100-80g", **fields)


def shard(replica: str, node: str = "n1", **fields: Any) -> Shard:
    """A shard of one node."""
    return Shard(
        shard=f"{replica}/0",
        replica=replica,
        rank=0,
        world=1,
        epoch=Epoch(number=1, control="c"),
        catalog_revision="1",
        revision="0" * 12,
        model="m",
        served_name="m",
        source="/m",
        engine="e",
        profile=Profile(name="p", engine="e"),
        peers=(Peer(node=node, address="10.0.0.1"),),
        address="10.0.0.1",
        leader_address="10.0.0.1",
        http_port=fields.pop("http_port", 20000),
        **fields,
    )


def inventory(*held: Shard, **fields: Any) -> Inventory:
    """One node, with what is held on it."""
    facts: dict[str, Any] = {"cpus": 8, "memory_mib": 1000, "port_range": PortRange(first=20000, last=20009)}
    report = NodeReport(node="n1", address="10.0.0.1", **{**facts, **fields})
    return Inventory({"n1": NodeView(name="n1", report=report)}, held)


def test_an_empty_node_is_free() -> None:
    free = inventory(gpus=(gpu(1), gpu(0))).free("n1")
    assert [one.index for one in free.gpus] == [0, 1]
    assert (free.cpus, free.memory_mib) == (8, 1000)
    assert list(free.ports) == list(range(20000, 20010))


def test_what_shards_hold_is_not_free() -> None:
    held = shard(
        "r-a",
        gpus=(GpuRef(index=0, uuid="GPU-0"),),
        cpus=3,
        memory_mib=400,
        http_port=20001,
        extra_ports={"metrics": (20002, 20003)},
        rendezvous_port=20004,
    )
    free = inventory(held, gpus=(gpu(0), gpu(1))).free("n1")
    assert [one.index for one in free.gpus] == [1]
    assert free.held == {0: held}
    assert (free.cpus, free.memory_mib) == (5, 600)
    assert list(free.ports) == [20000, *range(20005, 20010)]


def test_a_shard_that_intent_and_report_name_counts_once() -> None:
    one = shard("r-a", cpus=3, memory_mib=400)
    free = inventory(one, one.model_copy(update={"goal": "drain"})).free("n1")
    assert (free.cpus, free.memory_mib) == (5, 600)


def test_shards_of_other_nodes_hold_nothing_here() -> None:
    here = inventory(shard("r-a", node="n2", cpus=3, gpus=(GpuRef(index=0, uuid="X"),)), gpus=(gpu(0),))
    assert here.free("n1").cpus == 8
    assert len(here.free("n1").gpus) == 1


def test_a_gpu_is_held_by_its_uuid_even_after_a_renumbering() -> None:
    held = shard("r-a", gpus=(GpuRef(index=7, uuid="GPU-1"),))
    here = inventory(held, gpus=(gpu(0), gpu(1)))
    assert here.used_by("n1", gpu(1)) == held
    assert here.used_by("n1", gpu(0)) is None
    assert [one.index for one in here.free("n1").gpus] == [0]


def test_a_gpu_whose_uuid_changed_is_held_by_its_index() -> None:
    held = shard("r-a", gpus=(GpuRef(index=0, uuid="GPU-old"),))
    assert inventory(held, gpus=(gpu(0),)).free("n1").gpus == ()


def test_two_gpus_without_uuid_are_told_apart_by_index() -> None:
    bare = (Gpu(index=0, uuid=""), Gpu(index=1, uuid=""))
    held = shard("r-a", gpus=(GpuRef(index=0, uuid=""),))
    assert [one.index for one in inventory(held, gpus=bare).free("n1").gpus] == [1]


def test_an_unusable_gpu_is_kept_with_its_reasons() -> None:
    sick = gpu(1, usable=False, reasons=(Reason(code="ecc", text="2 uncorrected errors"),))
    free = inventory(gpus=(gpu(0), sick)).free("n1")
    assert [one.index for one in free.gpus] == [0]
    assert free.unusable == (sick,)


def test_busy_ports_are_not_free() -> None:
    free = inventory(shard("r-a", http_port=20001), ports_busy=(20000, 20004, 80)).free("n1")
    assert list(free.ports) == [20002, 20003, *range(20005, 20010)]
    assert 20002 in free.ports
    assert 20004 not in free.ports
    assert 80 not in free.ports


def test_the_lowest_block_of_ports_is_in_a_row() -> None:
    free = inventory(ports_busy=(20001, 20004)).free("n1")
    assert free.ports.lowest_block(1) == (20000,)
    assert free.ports.lowest_block(2) == (20002, 20003)
    assert free.ports.lowest_block(5) == tuple(range(20005, 20010))
    assert free.ports.lowest_block(6) is None


def test_a_range_may_be_all_ports() -> None:
    free = inventory(port_range=PortRange(first=1, last=65535)).free("n1")
    assert free.ports.lowest_block(2) == (1, 2)
    assert 65535 in free.ports


@pytest.mark.parametrize(("first", "last"), ((0, 10), (-5, 10), (1, 65536)))
def test_a_range_of_ports_that_do_not_exist_is_refused(first: int, last: int) -> None:
    with pytest.raises(ValueError, match="PortRange"):
        PortRange(first=first, last=last)


def test_a_node_that_shrank_has_nothing_free_rather_than_less() -> None:
    free = inventory(shard("r-a", cpus=16, memory_mib=5000)).free("n1")
    assert (free.cpus, free.memory_mib) == (0, 0)


def test_a_node_without_a_report_has_nothing() -> None:
    here = Inventory({"n1": NodeView(name="n1")})
    assert here.free("n1") == here.free("never seen") == Free()
    assert list(here.free("n1").ports) == []


def test_held_shards_of_a_node_come_in_the_order_of_their_ids() -> None:
    here = inventory(shard("r-b"), shard("r-a"), shard("r-c", node="n2"))
    assert [one.replica for one in here.held_on("n1")] == ["r-a", "r-b"]


def rail(device: str, **fields: Any) -> FabricPort:
    """A usable port on a labelled fabric."""
    base: dict[str, Any] = {"port": 1, "link_layer": "infiniband", "usable": True}
    return FabricPort(device=device, **{**base, "fabric": "ib-a", "fabric_strength": "label", **fields})


def test_adapter_ports_are_held_like_gpus() -> None:
    held = shard("r-a", hca_ports=(HcaRef(device="mlx5_0", port=1),))
    ports = (rail("mlx5_1"), rail("mlx5_0"), rail("mlx5_2", usable=False))
    free = inventory(held, fabric_ports=ports).free("n1")
    assert [port.device for port in free.hcas] == ["mlx5_1"]
    assert free.held_hcas == {("mlx5_0", 1): held}
    assert [port.device for port in inventory(fabric_ports=ports).free("n1").hcas] == ["mlx5_0", "mlx5_1"]


def test_a_fabric_is_certain_by_its_key_or_by_the_operators_word() -> None:
    ports = (
        rail("a"),
        rail("b", fabric="ib-b", fabric_strength="strong", usable=False),
        rail("c", fabric="w", fabric_strength="weak"),
        rail("d", fabric=None, fabric_strength=None),
    )
    here = inventory(fabric_ports=ports)
    assert here.fabrics == {"ib-a": ("n1",), "ib-b": ("n1",)}
    confirmed = Inventory(here.nodes, (), frozenset({"w"}))
    assert confirmed.fabrics == {"ib-a": ("n1",), "ib-b": ("n1",), "w": ("n1",)}


def test_free_gpus_are_known_by_class() -> None:
    cards = (gpu(2), gpu(0), Gpu(index=1, uuid="x", gpu_class="l40s-45g"), Gpu(index=3, uuid="y"))
    free = inventory(gpus=cards).free("n1")
    assert {name: [one.index for one in own] for name, own in free.by_class.items()} == {
        "h100-80g": [0, 2],
        "l40s-45g": [1],
    }
    assert free.of_class(None) == ()


def test_the_fullest_node_is_ranked_first() -> None:
    def view(name: str, gpus: int, cpus: int) -> NodeView:
        cards = tuple(gpu(index) for index in range(gpus))
        report = NodeReport(node=name, address="a", cpus=cpus, memory_mib=1000, gpus=cards)
        return NodeView(name=name, report=report)

    views = (view("b", 2, 1), view("a", 2, 1), view("c", 0, 9), view("d", 1, 9), NodeView("unheard"))
    ranking = Inventory({one.name: one for one in views}).ranking
    assert list(ranking.fullest()) == ["c", "d", "a", "b"]
    assert list(ranking.fullest("h100-80g")) == ["d", "a", "b"]
    assert list(ranking.fullest("h100-80g", 2)) == ["a", "b"]
    assert list(ranking.fullest("l40s-45g")) == []
