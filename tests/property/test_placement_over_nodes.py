"""What holds for every replica over several nodes, on random clusters of fabrics that may lack anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from llmgw_core.catalog.model import Model
from llmgw_core.inventory.inventory import Inventory
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.placement.place import place
from llmgw_core.placement.result import NodePlacement, Placement, Unschedulable
from llmgw_core.placement.steering import Steering
from llmgw_core.spec import (
    BinarySpec,
    Capability,
    EngineFound,
    EngineInfo,
    Epoch,
    FabricPort,
    Gpu,
    GpuRef,
    HcaRef,
    NodeReport,
    Peer,
    PortNeed,
    PortRange,
    Profile,
    Reason,
    Shard,
    Support,
)

MANY = settings(max_examples=400, deadline=None)
ENGINE = EngineInfo(
    name="e",
    title="E",
    binary=BinarySpec(names=("e",)),
    paths=(),
    capabilities={Capability.MULTI_NODE: Support.SUPPORTED, Capability.TP_ACROSS_NODES: Support.SUPPORTED},
    ports=(PortNeed(name="rendezvous", ranks="leader", only_multi_node=True), PortNeed(name="kv")),
    max_nodes=3,
)
ENGINES = {"e": ENGINE}
LEADER_PORTS, WORKER_PORTS = 3, 2
CLASS = "h100-80g"
CONFIRMED = frozenset({"weak-but-confirmed"})

RAILS: tuple[dict[str, Any], ...] = (
    *({"fabric": "ib-a", "fabric_strength": "strong"},) * 3,
    *({"fabric": "ib-b", "fabric_strength": "label"},) * 3,
    {"fabric": "ib-b", "fabric_strength": "label", "link_layer": "roce"},
    {"fabric": "ib-a", "fabric_strength": "weak"},
    {"fabric": "weak-but-confirmed", "fabric_strength": "weak"},
    {"fabric": None, "fabric_strength": None},
    {"fabric": "ib-a", "fabric_strength": "strong", "usable": False, "reasons": (Reason(code="down"),)},
)
STATES: tuple[dict[str, Any], ...] = (*({},) * 12, {"cordoned": "by hand"}, {"freshness": "late"})
CARDS: tuple[dict[str, Any], ...] = (
    *({"gpu_class": CLASS},) * 6,
    {"gpu_class": "l40s-45g"},
    {"gpu_class": CLASS, "usable": False, "reasons": (Reason(code="ecc"),)},
)


@st.composite
def views(draw: st.DrawFn, name: str) -> NodeView:
    """One small node on up to three ports of any fabric."""
    cards = draw(st.lists(st.sampled_from(CARDS), min_size=0, max_size=4))
    rails = draw(st.lists(st.sampled_from(RAILS), max_size=3))
    version, cpus, last, domains = draw(
        st.tuples(
            st.sampled_from(("1.0", "1.0", "1.0", "2.0")),
            st.integers(1, 4),
            st.integers(20001, 20005),
            st.sampled_from(((), (), ((0, 1), (2, 3)))),
        )
    )
    report = NodeReport(
        node=name,
        address=f"address-of-{name}",
        cpus=cpus,
        memory_mib=4000,
        gpus=tuple(Gpu(index=index, uuid=f"{name}-{index}", **card) for index, card in enumerate(cards)),
        nvlink_domains=tuple(domain for domain in domains if domain[-1] < len(cards)),
        fabric_ports=tuple(
            FabricPort(**{"device": f"hca{at}", "port": 1, "link_layer": "infiniband", "usable": True, **one})
            for at, one in enumerate(rails)
        ),
        engines=(EngineFound(name="e", version=version, binary=("e",)),),
        port_range=PortRange(first=20000, last=last),
    )
    state: dict[str, Any] = {"connected": True, "speaks": True, **draw(st.sampled_from(STATES))}
    return NodeView(name=name, report=report, **state)


def shard_of(got: NodePlacement, replica: str, rank: int = 0, world: int = 1) -> Shard:
    """What holds a placement."""
    return Shard(
        shard=f"{replica}/{rank}",
        replica=replica,
        rank=rank,
        world=world,
        epoch=Epoch(number=1, control="c"),
        catalog_revision="1",
        revision="0" * 12,
        model="other",
        served_name="other",
        source="/other",
        engine="e",
        profile=Profile(name="p", engine="e"),
        peers=(Peer(node=got.node, address="a"),) * world,
        address="a",
        leader_address="a",
        http_port=got.http_port,
        rendezvous_port=got.rendezvous_port,
        extra_ports=got.extra_ports,
        gpus=got.gpus,
        cpus=got.cpus,
        memory_mib=got.memory_mib,
        hca_ports=got.hca_ports,
    )


@st.composite
def fleets(draw: st.DrawFn) -> Inventory:
    """Two to five nodes; on some a shard holds a GPU, an adapter, a CPU and a port."""
    names = [f"n{index}" for index in range(draw(st.integers(2, 5)))]
    nodes = {name: draw(views(name)) for name in names}
    held = []
    for name in draw(st.sets(st.sampled_from(names), max_size=2)):
        index, device, port = draw(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(20000, 20005)))
        gpus, hcas = (GpuRef(index=index, uuid=f"{name}-{index}"),), (HcaRef(device=f"hca{device}", port=1),)
        got = NodePlacement(name, "a", gpus, 1, 0, port, hca_ports=hcas)
        held.append(shard_of(got, f"r-{name}"))
    return Inventory(nodes, tuple(held), CONFIRMED)


SHAPES = ((2, 1, 1), (2, 2, 2), (3, 1, 1), (2, 2, 4), (2, 4, 2), (2, 0, 1), (3, 0, 1))


def model_of(shape: tuple[int, int, int], cpus: int) -> Model:
    """A model over `nodes` of `gpus` each, in tensor-parallel groups."""
    nodes, gpus, group = shape
    profile = Profile(
        name="p",
        engine="e",
        nodes=nodes,
        gpus_per_node=gpus,
        gpu_class=CLASS if gpus else None,
        tensor_parallel=group,
        pipeline_parallel=max(nodes * gpus // group, 1),
        cpus=cpus,
    )
    return Model(name="m", source="/m", profiles=(profile,))


MODELS = st.builds(model_of, st.sampled_from(SHAPES), st.integers(1, 2))


def held_here(fleet: Inventory, name: str) -> list[Shard]:
    """The shards of a node."""
    return [shard for shard in fleet.held if shard.node == name]


def rails_of(fleet: Inventory, name: str, fabric: str, *, free: bool) -> list[FabricPort]:
    """Usable ports of a node that are surely on a fabric."""
    report = fleet.nodes[name].report
    assert report is not None
    taken = {(ref.device, ref.port) for shard in held_here(fleet, name) for ref in shard.hca_ports}
    return [
        port
        for port in report.fabric_ports
        if port.usable
        and port.fabric == fabric
        and (port.fabric_strength != "weak" or fabric in CONFIRMED)
        and not (free and (port.device, port.port) in taken)
    ]


def free_gpus(fleet: Inventory, name: str) -> list[int]:
    """Indices of the GPUs that may be handed out."""
    report = fleet.nodes[name].report
    assert report is not None
    taken = {ref.index for shard in held_here(fleet, name) for ref in shard.gpus}
    return [
        gpu.index for gpu in report.gpus if gpu.usable and gpu.gpu_class == CLASS and gpu.index not in taken
    ]


def gpus_suit(fleet: Inventory, name: str, profile: Profile) -> bool:
    """Whether any choice of GPUs keeps blocks of a tensor-parallel group inside NVLink domains."""
    report = fleet.nodes[name].report
    assert report is not None
    block = min(profile.tensor_parallel, profile.gpus_per_node)
    ours = {gpu.index for gpu in report.gpus if gpu.gpu_class == CLASS}
    domains = [ours & set(domain) for domain in report.nvlink_domains]
    matters = block > 1 and any(len(domain) >= block for domain in domains)
    for chosen in combinations(free_gpus(fleet, name), profile.gpus_per_node):
        inside = [len(domain & set(chosen)) for domain in domains]
        if not matters or (sum(inside) == len(chosen) and all(count % block == 0 for count in inside)):
            return True
    return False


def ports_in_a_row(fleet: Inventory, name: str, count: int) -> bool:
    """Whether so many ports are free side by side."""
    report = fleet.nodes[name].report
    assert report is not None
    taken = {port for shard in held_here(fleet, name) for port in shard.ports}
    free = [port for port in range(report.port_range.first, report.port_range.last + 1) if port not in taken]
    runs = [1] if free else []
    for before, after in pairwise(free):
        runs.append(runs[-1] + 1 if after == before + 1 else 1)
    return max(runs, default=0) >= count


def can_work(fleet: Inventory, name: str, profile: Profile) -> bool:
    """Whether a node has what a worker needs, its fabric aside."""
    view = fleet.nodes[name]
    assert view.report is not None
    cpus = view.report.cpus - sum(shard.cpus for shard in held_here(fleet, name))
    return (
        view.cordoned is None
        and view.freshness == "ready"
        and profile.cpus <= cpus
        and ports_in_a_row(fleet, name, WORKER_PORTS)
        and (profile.gpus_per_node == 0 or gpus_suit(fleet, name, profile))
    )


def networks(fleet: Inventory, name: str, *, gpus: bool) -> set[tuple[str, str]]:
    """The networks on which a node can meet others: fabric and, for GPUs, link layer."""
    report = fleet.nodes[name].report
    assert report is not None
    found: set[tuple[str, str]] = set()
    for fabric in {port.fabric for port in report.fabric_ports if port.fabric}:
        ports = rails_of(fleet, name, fabric, free=gpus)
        found |= {(fabric, port.link_layer if gpus else "") for port in ports}
    if not gpus and not any(port.usable for port in report.fabric_ports):
        found.add(("", ""))
    return found


def teams(fleet: Inventory, profile: Profile) -> Iterator[tuple[str, ...]]:
    """Every set of nodes that could run the profile, by trying all of them."""
    able = [name for name in fleet.nodes if can_work(fleet, name, profile)]
    for team in combinations(able, profile.nodes):
        shared = set.intersection(*(networks(fleet, name, gpus=profile.gpus_per_node > 0) for name in team))
        reports = [view.report for name in team if (view := fleet.nodes[name]).report]
        versions = {engine.version for report in reports for engine in report.engines}
        leads = any(ports_in_a_row(fleet, name, LEADER_PORTS) for name in team)
        if shared and len(versions) == 1 and leads:
            yield team


def ports_of(got: NodePlacement) -> list[int]:
    """Every port that a rank gets."""
    rendezvous = [got.rendezvous_port] if got.rendezvous_port is not None else []
    return [got.http_port, *rendezvous, *(port for ports in got.extra_ports.values() for port in ports)]


def check_handed_out(fleet: Inventory, result: Placement) -> None:
    """One fabric, its adapters alone, one class, all of it free and whole, the meeting port on rank 0."""
    profile, ranks = result.profile, result.nodes
    assert len({got.node for got in ranks}) == len(ranks) == profile.nodes
    (fabric,) = {got.fabric for got in ranks}
    layers = set()
    for rank, got in enumerate(ranks):
        indices = [ref.index for ref in got.gpus]
        assert len(set(indices)) == len(indices) == profile.gpus_per_node
        assert set(indices) <= set(free_gpus(fleet, got.node))
        held = {(ref.device, ref.port) for ref in got.hca_ports}
        if profile.gpus_per_node:
            assert fabric is not None
            own = rails_of(fleet, got.node, fabric, free=True)
            used = [port for port in own if (port.device, port.port) in held]
            assert len(used) == len(held) > 0
            layers |= {port.link_layer for port in used}
        else:
            assert held == set()
            assert fabric is None or rails_of(fleet, got.node, fabric, free=False)
        taken = {port for shard in held_here(fleet, got.node) for port in shard.ports}
        handed = ports_of(got)
        assert len(set(handed)) == len(handed) == (WORKER_PORTS if rank else LEADER_PORTS)
        assert not set(handed) & taken
        assert (got.rendezvous_port is not None) == (rank == 0)
    assert len(layers) <= 1


@MANY
@given(MODELS, fleets())
def test_a_team_is_found_exactly_when_trying_everything_finds_one(model: Model, fleet: Inventory) -> None:
    possible = {frozenset(team) for team in teams(fleet, model.profiles[0])}
    result = place(model, fleet, engines=ENGINES)
    if isinstance(result, Placement):
        assert frozenset(got.node for got in result.nodes) in possible
        check_handed_out(fleet, result)
    else:
        assert possible == set()
        assert result.rejections


@MANY
@given(MODELS, fleets(), st.randoms(use_true_random=False))
def test_the_order_of_anything_changes_nothing(model: Model, fleet: Inventory, rand: Any) -> None:
    def shuffled(items: Iterable[Any]) -> list[Any]:
        mixed = list(items)
        rand.shuffle(mixed)
        return mixed

    nodes = {}
    for name, view in shuffled(fleet.nodes.items()):
        changes = {
            "gpus": tuple(shuffled(view.report.gpus)),
            "fabric_ports": tuple(shuffled(view.report.fabric_ports)),
        }
        nodes[name] = NodeView(**{**vars(view), "report": view.report.model_copy(update=changes)})
    other = Inventory(nodes, tuple(shuffled(fleet.held)), CONFIRMED)
    first, second = place(model, fleet, engines=ENGINES), place(model, other, engines=ENGINES)
    assert type(first) is type(second)
    if isinstance(first, Placement) and isinstance(second, Placement):
        assert (first.nodes, first.scores) == (second.nodes, second.scores)
    rows = [[(one.node, one.constraint, one.had) for one in result.rejections] for result in (first, second)]
    assert rows[0] == rows[1]


@MANY
@given(MODELS, fleets(), st.sets(st.sampled_from(("n0", "n1", "n2", "n3"))))
def test_what_is_taken_at_once_is_what_weighing_all_would_take(
    model: Model, fleet: Inventory, failed: set[str]
) -> None:
    steering = Steering(failed={("m", name): 10.0 for name in failed}, now=5.0)
    result = place(model, fleet, engines=ENGINES, steering=steering)
    if isinstance(result, Placement):
        best = result.scores[0]
        assert best.candidate.partition(" (")[0].split(" + ") == [got.node for got in result.nodes]
        assert bool(best.avoided) == any(got.node in failed for got in result.nodes)
        clean = [team for team in teams(fleet, result.profile) if not failed & set(team)]
        assert not (best.avoided and clean)


@settings(max_examples=100, deadline=None)
@given(MODELS, fleets())
def test_filling_a_cluster_hands_nothing_out_twice(model: Model, fleet: Inventory) -> None:
    got: list[NodePlacement] = []
    for number in range(100):
        result = place(model, fleet, engines=ENGINES)
        if isinstance(result, Unschedulable):
            break
        got.extend(result.nodes)
        shards = [shard_of(one, f"r-new{number}-{one.node}") for one in result.nodes]
        fleet = fleet.holding(*shards)
    else:
        raise AssertionError("a small cluster never fills up")
    ports = [(one.node, port) for one in got for port in ports_of(one)]
    uuids = [ref.uuid for one in got for ref in one.gpus]
    hcas = [(one.node, ref.device, ref.port) for one in got for ref in one.hca_ports]
    for handed in (ports, uuids, hcas):
        assert len(set(handed)) == len(handed)


def changed(fleet: Inventory, words: str) -> Inventory:
    """The cluster after an operator did what an explanation told."""
    what, _, rest = words.partition(" ")
    if what == "stop":
        held = tuple(shard for shard in fleet.held if shard.replica != rest.split("/")[1])
        return Inventory(fleet.nodes, held, CONFIRMED)
    name = rest.rpartition(" ")[2]
    view = fleet.nodes[name]
    report = view.report
    assert report is not None
    if what == "uncordon":
        after = {**vars(view), "cordoned": None}
    elif rest.startswith("GPU"):
        index = int(rest.split()[1])
        cards = [
            gpu.model_copy(update={"usable": True}) if gpu.index == index else gpu for gpu in report.gpus
        ]
        after = {**vars(view), "report": report.model_copy(update={"gpus": tuple(cards)})}
    else:
        device = rest.partition(":")[0]
        ports = [
            port.model_copy(update={"usable": True}) if port.device == device else port
            for port in report.fabric_ports
        ]
        after = {**vars(view), "report": report.model_copy(update={"fabric_ports": tuple(ports)})}
    return Inventory({**fleet.nodes, name: NodeView(**after)}, fleet.held, CONFIRMED)


@MANY
@given(MODELS, fleets())
def test_whatever_is_said_to_make_room_does(model: Model, fleet: Inventory) -> None:
    result = place(model, fleet, engines=ENGINES)
    if isinstance(result, Unschedulable):
        for words in result.remedies:
            assert isinstance(place(model, changed(fleet, words), engines=ENGINES), Placement), words


@MANY
@given(MODELS, fleets())
def test_uncordoning_and_stopping_are_named_whenever_they_would_help(model: Model, fleet: Inventory) -> None:
    result = place(model, fleet, engines=ENGINES)
    if isinstance(result, Placement):
        return
    acts = [f"uncordon {name}" for name, view in fleet.nodes.items() if view.cordoned is not None]
    acts += [f"stop other/{shard.replica}" for shard in fleet.held]
    for words in acts:
        if isinstance(place(model, changed(fleet, words), engines=ENGINES), Placement):
            assert words in result.remedies


@MANY
@given(fleets(), fleets(), MODELS)
def test_what_is_learnt_from_a_change_is_what_a_new_snapshot_says(
    fleet: Inventory, other: Inventory, model: Model
) -> None:
    # Everything is asked first, so that there is something to hand on.
    assert len(fleet.ranking.everyone) == len(fleet.nodes)
    assert set(fleet.fabrics) <= {"ib-a", "ib-b", *CONFIRMED}
    view = other.nodes["n0"]
    held = tuple(shard for shard in other.held if shard.node in fleet.nodes)
    after = fleet.holding(*held).seeing(view).without("r-n1")
    nodes = {**fleet.nodes, "n0": view}
    left = tuple(shard for shard in (*fleet.held, *held) if shard.replica != "r-n1")
    fresh = Inventory(nodes, left, CONFIRMED)
    for one in (after, Inventory(nodes, left, CONFIRMED).following(fleet)):
        assert {name: one.free(name) for name in nodes} == {name: fresh.free(name) for name in nodes}
        assert (one.ranking.everyone, one.fabrics) == (fresh.ranking.everyone, fresh.fabrics)
        ranked = {name: entries for name, entries in one.ranking.by_class.items() if entries}
        assert ranked == dict(fresh.ranking.by_class)
        assert str(place(model, one, engines=ENGINES)) == str(place(model, fresh, engines=ENGINES))


@pytest.mark.parametrize("on_gpu", (True, False))
@pytest.mark.parametrize("answer", (Placement, Unschedulable))
def test_the_clusters_above_are_of_every_sort(answer: type, on_gpu: bool) -> None:
    def such(world: tuple[Model, Inventory]) -> bool:
        model, fleet = world
        wants = model.profiles[0].gpus_per_node > 1
        return wants == on_gpu and isinstance(place(model, fleet, engines=ENGINES), answer)

    quick = settings(max_examples=3000, deadline=None, database=None, phases=[Phase.generate])
    assert find(st.tuples(MODELS, fleets()), such, settings=quick)
