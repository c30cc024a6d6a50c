"""How long one placement decision takes, from 100 to 10,000 nodes of 8 GPUs, and what an explanation costs.

    python benchmarks/placement.py [NODES ...]

Times are processor times of one thread. Clusters are half full: half of the nodes have all their GPUs held,
so that a decision has to look past them.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator

from llmgw_core.catalog.model import Model
from llmgw_core.inventory.inventory import Inventory
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.placement.explain import explain
from llmgw_core.placement.place import place
from llmgw_core.placement.result import NodePlacement, Placement
from llmgw_core.spec import (
    BinarySpec,
    Capability,
    EngineFound,
    EngineInfo,
    Epoch,
    FabricPort,
    Gpu,
    GpuRef,
    NodeReport,
    Peer,
    Profile,
    Shard,
    Support,
)

SIZES = (100, 1_000, 10_000)
GPUS = 8
ROUNDS = 30
FILLED = 2_000
"""Replicas placed one by one for the rate; a full cluster of the largest size would take 80,000."""
CLASSES = ("h100-80g", "l40s-45g")
ENGINE = EngineInfo(
    name="e",
    title="E",
    binary=BinarySpec(names=("e",)),
    paths=(),
    capabilities={Capability.MULTI_NODE: Support.SUPPORTED},
    max_nodes=16,
)


def node(number: int) -> NodeView:
    """One of 8 GPUs in one NVLink domain and 4 adapters; every fabric joins 32 of them."""
    name = f"node{number:05}"
    gpus = tuple(
        Gpu(index=index, uuid=f"{name}-{index}", gpu_class=CLASSES[number % 4 == 3]) for index in range(GPUS)
    )
    ports = tuple(
        FabricPort(
            device=f"mlx5_{index}",
            port=1,
            link_layer="infiniband",
            active=True,
            usable=True,
            fabric=f"ib-{number // 32:03}",
            fabric_strength="label",
        )
        for index in range(4)
    )
    report = NodeReport(
        node=name,
        address=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
        cpus=128,
        memory_mib=1 << 20,
        gpus=gpus,
        nvlink_domains=(tuple(range(GPUS)),),
        fabric_ports=ports,
        engines=(EngineFound(name="e", version="1.0", binary=("e",)),),
    )
    return NodeView(name=name, report=report, speaks=True, connected=True)


def shard(replica: str, got: NodePlacement, profile: Profile) -> Shard:
    """What holds a placement."""
    return Shard(
        shard=f"{replica}/0",
        replica=replica,
        rank=0,
        world=1,
        epoch=Epoch(number=1, control="c"),
        catalog_revision="1",
        revision="0" * 12,
        model="other",
        served_name="other",
        source="/other",
        engine="e",
        profile=profile,
        peers=(Peer(node=got.node, address=got.address),),
        address=got.address,
        leader_address=got.address,
        http_port=got.http_port,
        gpus=got.gpus,
        cpus=got.cpus,
        memory_mib=got.memory_mib,
    )


def model(**profile: object) -> Model:
    """A model of one profile on H100s."""
    base = {"name": "p", "engine": "e", "gpu_class": "h100-80g", "cpus": 4, "memory_mib": 4096}
    return Model(name="m", source="/m", profiles=(Profile.model_validate(base | profile),))


ONE = model(gpus_per_node=4, tensor_parallel=4)
TWO = model(nodes=2, gpus_per_node=8, tensor_parallel=8, pipeline_parallel=2)
NONE = model(gpus_per_node=8, tensor_parallel=8, engine_version=">=9")


def half_full(nodes: int) -> Inventory:
    """Every second node held entirely."""
    views = {view.name: view for view in map(node, range(nodes))}
    held = []
    for view in list(views.values())[::2]:
        refs = tuple(GpuRef(index=index, uuid=f"{view.name}-{index}") for index in range(GPUS))
        got = NodePlacement(view.name, "10.0.0.1", refs, 64, 1 << 19, 20000)
        held.append(shard(f"r-{view.name}", got, ONE.profiles[0]))
    return Inventory(views, tuple(held))


def fresh(inventory: Inventory) -> Inventory:
    """The same inventory, of which nothing is known yet, as the first pass has it."""
    return Inventory(inventory.nodes, inventory.held)


def following(inventory: Inventory) -> Inventory:
    """The same inventory as a later pass has it."""
    return fresh(inventory).following(inventory)


def milliseconds(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The median processor time of a call: other programs on the machine do not count."""
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        call()
        taken.append(time.process_time() - started)
    return statistics.median(taken) * 1e3


def placements(inventory: Inventory, wanted: Model, count: int) -> Iterator[Inventory]:
    """The inventory after each of `count` placements."""
    for number in range(count):
        result = place(wanted, inventory, engines={"e": ENGINE})
        if not isinstance(result, Placement):
            return
        inventory = inventory.holding(shard(f"r-{number:07}", result.nodes[0], result.profile))
        yield inventory


def fill_rate(nodes: int) -> float:
    """Placements a second into an empty cluster, one by one."""
    empty = Inventory({view.name: view for view in map(node, range(nodes))})
    place(ONE, empty, engines={"e": ENGINE})
    started = time.process_time()
    done = sum(1 for _ in placements(empty, ONE, FILLED))
    return done / (time.process_time() - started)


def row(nodes: int) -> tuple[float, ...]:
    """Figures of one size, in the order of `HEAD`."""
    inventory = half_full(nodes)
    engines = {"e": ENGINE}
    fitting = [
        isinstance(place(wanted, inventory, engines=engines), Placement) for wanted in (ONE, TWO, NONE)
    ]
    if fitting != [True, True, False]:
        raise SystemExit("the cluster is not what is to be measured")
    return (
        milliseconds(lambda: place(ONE, inventory, engines=engines)),
        milliseconds(lambda: place(TWO, inventory, engines=engines)),
        milliseconds(lambda: place(NONE, inventory, engines=engines)),
        milliseconds(lambda: place(ONE, fresh(inventory), engines=engines), 5),
        milliseconds(lambda: place(ONE, following(inventory), engines=engines), 5),
        milliseconds(lambda: explain(NONE, place(NONE, inventory, engines=engines)), 5),
        fill_rate(nodes),
    )


HEAD = ("one node", "two nodes", "fits nowhere", "first pass", "later pass", "explained", "placements/s")


def main() -> None:
    """Print one row for each size; times in milliseconds, medians."""
    sizes = [int(text) for text in sys.argv[1:]] or SIZES
    print(f"{'nodes':>7}  " + "  ".join(f"{name:>12}" for name in HEAD))
    for nodes in sizes:
        print(f"{nodes:>7}  " + "  ".join(f"{figure:>12.3f}" for figure in row(nodes)), flush=True)


if __name__ == "__main__":
    main()
