"""What holds for every placement, on random clusters of nodes that may lack anything."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from llmgw_core.catalog.model import Model
from llmgw_core.inventory.inventory import Inventory
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.placement.place import place
from llmgw_core.placement.result import NodePlacement, Placement, Unschedulable
from llmgw_core.spec import (
    BinarySpec,
    EngineFound,
    EngineInfo,
    Epoch,
    Gpu,
    GpuRef,
    NodeReport,
    PathFact,
    Peer,
    PortNeed,
    PortRange,
    Profile,
    Reason,
    Shard,
)

MANY = settings(max_examples=400, deadline=None)
CLASSES = ("h100-80g", "h100-80g", "l40s-45g")
NEEDS = (PortNeed(name="metrics"), PortNeed(name="join", count=3, only_multi_node=True))
ENGINES = {"e": EngineInfo(name="e", title="E", binary=BinarySpec(names=("e",)), paths=(), ports=NEEDS)}
PORTS_EACH = 2
SOURCE = "/weights"

# Few draws for each example: what may vary together is drawn as one choice, the ordinary ones first.
ODD_CARDS: tuple[dict[str, Any], ...] = (
    {"gpu_class": "l40s-45g"},
    {"usable": False, "reasons": (Reason(code="ecc"),)},
    {"gpu_class": None},
)
STATES: tuple[dict[str, Any], ...] = (
    *({},) * 20,
    {"connected": False},
    {"speaks": False},
    {"cordoned": "by hand"},
    {"freshness": "late"},
    {"freshness": "lost"},
)
SOFTWARE: tuple[dict[str, Any], ...] = (
    *({"engines": (EngineFound(name="e", version="2.0", binary=("e",)),)},) * 9,
    {"engines": (EngineFound(name="e", version="1.0", binary=("e",)),)},
    {"engines": (EngineFound(name="e", version="2.0", binary=("e",), problems=("broken",)),)},
    {"engines": ()},
)
FACTS: tuple[dict[str, Any], ...] = (
    *({"labels": {"rack": "a"}},) * 9,
    {"labels": {"rack": "b"}},
    {"paths": {SOURCE: PathFact(exists=True)}, "labels": {"rack": "a"}},
    {"paths": {SOURCE: PathFact(exists=False)}, "labels": {"rack": "a"}},
)


def domains_of(count: int, width: int) -> tuple[tuple[int, ...], ...]:
    """GPUs in NVLink domains of `width`, the last one perhaps smaller; none of a single GPU."""
    starts = range(0, count, width) if width else ()
    domains = [tuple(range(at, min(at + width, count))) for at in starts]
    return tuple(domain for domain in domains if len(domain) > 1)


@st.composite
def views(draw: st.DrawFn, name: str) -> NodeView:
    """One node: small, so that it fills up, and at times in no state to be given anything."""
    count, width, cpus, memory, first, last = draw(
        st.tuples(
            st.sampled_from((6, 4, 8, 2, 0)),
            st.sampled_from((0, 2, 3, 4)),
            st.integers(3, 12),
            st.integers(1000, 4000),
            st.integers(20000, 20002),
            st.integers(20003, 20008),
        )
    )
    odd = draw(st.dictionaries(st.integers(0, 7), st.sampled_from(ODD_CARDS), max_size=2))
    usual = {"gpu_class": draw(st.sampled_from(("h100-80g", "h100-80g", "l40s-45g")))}
    cards = [{**usual, **odd.get(index, {})} for index in range(count)]
    report = NodeReport(
        node=name,
        address=f"address-of-{name}",
        cpus=cpus,
        memory_mib=memory,
        gpus=tuple(Gpu(index=index, uuid=f"{name}-{index}", **card) for index, card in enumerate(cards)),
        nvlink_domains=domains_of(count, width),
        port_range=PortRange(first=first, last=last),
        ports_busy=tuple(draw(st.sets(st.integers(20000, 20009), max_size=2))),
        **draw(st.sampled_from(SOFTWARE)),
        **draw(st.sampled_from(FACTS)),
    )
    state: dict[str, Any] = {"connected": True, "speaks": True, **draw(st.sampled_from(STATES))}
    return NodeView(name=name, report=report, **state)


def held_shard(replica: str, name: str, **fields: Any) -> Shard:
    """A shard that holds something on a node."""
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
        profile=Profile(name="p", engine="e"),
        peers=(Peer(node=name, address="a"),),
        address="a",
        leader_address="a",
        **fields,
    )


@st.composite
def fleets(draw: st.DrawFn) -> Inventory:
    """Up to three nodes, some of whose resources are held."""
    nodes = {f"n{index}": draw(views(f"n{index}")) for index in range(draw(st.integers(0, 3)))}
    held = []
    for name in draw(st.sets(st.sampled_from(sorted(nodes)))) if nodes else ():
        indices, port, cpus, memory = draw(
            st.tuples(
                st.sets(st.integers(0, 5), max_size=3),
                st.integers(20000, 20009),
                st.integers(0, 4),
                st.sampled_from((0, 1000, 2000)),
            )
        )
        refs = tuple(GpuRef(index=index, uuid=f"{name}-{index}") for index in indices)
        held.append(held_shard(f"r-{name}", name, gpus=refs, http_port=port, cpus=cpus, memory_mib=memory))
    return Inventory(nodes, tuple(held))


SIZES = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (3, 1))


def build_profile(
    name: str, gpu: tuple[str, tuple[int, int]] | None, cpus: int, memory: int, extra: dict[str, Any]
) -> Profile:
    """A profile for a single node, on GPUs or not."""
    tensor, pipeline = gpu[1] if gpu else (1, 1)
    return Profile(
        name=name,
        engine="e",
        gpu_class=gpu[0] if gpu else None,
        gpus_per_node=tensor * pipeline if gpu else 0,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        cpus=cpus,
        memory_mib=memory,
        **extra,
    )


def profiles(name: str) -> st.SearchStrategy[Profile]:
    """Profiles that often want a GPU, and at times a label or a version."""
    return st.builds(
        build_profile,
        st.just(name),
        st.tuples(st.sampled_from(CLASSES), st.sampled_from(SIZES)) | st.none(),
        st.integers(1, 6),
        st.sampled_from((0, 0, 500, 2500)),
        st.sampled_from(({}, {}, {}, {}, {"node_selector": {"rack": "a"}}, {"engine_version": ">=2"})),
    )


MODELS = st.builds(
    lambda first, second: Model(name="m", source=SOURCE, profiles=(first, second)),
    profiles("first"),
    profiles("second"),
)


def taken_on(inventory: Inventory, name: str) -> tuple[set[str], set[int], int, int]:
    """UUIDs, ports, CPUs and memory that shards hold on a node, by plain addition."""
    here = [shard for shard in inventory.held if shard.node == name]
    return (
        {ref.uuid for shard in here for ref in shard.gpus},
        {port for shard in here for port in shard.ports},
        sum(shard.cpus for shard in here),
        sum(shard.memory_mib for shard in here),
    )


def usable_gpus(inventory: Inventory, view: NodeView, profile: Profile) -> list[Gpu]:
    """The GPUs of a node that the profile may have."""
    held = taken_on(inventory, view.name)[0]
    assert view.report is not None
    return [
        gpu
        for gpu in view.report.gpus
        if gpu.usable and gpu.uuid not in held and gpu.gpu_class == profile.gpu_class
    ]


def groups_hold(chosen: Iterable[int], view: NodeView, profile: Profile) -> bool:
    """Whether these GPUs can be split into tensor-parallel groups that leave no NVLink domain."""
    assert view.report is not None
    ours = {gpu.index for gpu in view.report.gpus if gpu.gpu_class == profile.gpu_class}
    domains = [ours & set(domain) for domain in view.report.nvlink_domains]
    group = profile.tensor_parallel
    if group == 1 or not any(len(domain) >= group for domain in domains):
        return True
    inside = [len(domain & set(chosen)) for domain in domains]
    return sum(inside) == profile.gpus_per_node and all(count % group == 0 for count in inside)


def could_take(inventory: Inventory, view: NodeView, profile: Profile) -> bool:
    """Whether a node can take the profile, by trying everything."""
    report = view.report
    assert report is not None
    _, ports, cpus, memory = taken_on(inventory, view.name)
    span = report.port_range
    blocked = ports | set(report.ports_busy)
    starts = range(span.first, span.last - PORTS_EACH + 2)
    fact = report.paths.get(SOURCE)
    sets = combinations(usable_gpus(inventory, view, profile), profile.gpus_per_node)
    return (
        view.freshness == "ready"
        and view.connected
        and view.speaks
        and view.cordoned is None
        and all(report.labels.get(key) == value for key, value in profile.node_selector.items())
        and any(
            not engine.problems and (profile.engine_version is None or engine.version == "2.0")
            for engine in report.engines
        )
        and (fact is None or fact.exists)
        and profile.cpus <= report.cpus - cpus
        and profile.memory_mib <= max(0, report.memory_mib - memory)
        and any(not blocked & set(range(start, start + PORTS_EACH)) for start in starts)
        and (
            profile.gpus_per_node == 0
            or any(groups_hold([gpu.index for gpu in chosen], view, profile) for chosen in sets)
        )
    )


def ports_of(got: NodePlacement) -> list[int]:
    """Every port that a placement hands out."""
    return [got.http_port, *(port for ports in got.extra_ports.values() for port in ports)]


def check_handed_out(fleet: Inventory, result: Placement) -> None:
    """What is handed out is whole, free, healthy, of one class, and in groups that hold together."""
    (got,) = result.nodes
    view, profile = fleet.nodes[got.node], result.profile
    assert view.report is not None
    free = {gpu.uuid: gpu for gpu in usable_gpus(fleet, view, profile)}
    assert len({ref.uuid for ref in got.gpus}) == len(got.gpus) == profile.gpus_per_node
    assert all(free[ref.uuid].index == ref.index for ref in got.gpus)
    _, ports, cpus, memory = taken_on(fleet, got.node)
    handed, span = ports_of(got), view.report.port_range
    assert len(set(handed)) == len(handed) == PORTS_EACH
    assert not set(handed) & (ports | set(view.report.ports_busy))
    assert all(span.first <= port <= span.last for port in handed)
    assert got.cpus == profile.cpus <= view.report.cpus - cpus
    assert got.memory_mib == profile.memory_mib <= max(0, view.report.memory_mib - memory)
    group = profile.tensor_parallel
    for at in range(0, len(got.gpus), group):
        ranks = [ref.index for ref in got.gpus[at : at + group]]
        assert groups_hold(ranks, view, profile.model_copy(update={"gpus_per_node": group}))


@MANY
@given(MODELS, fleets())
def test_a_place_is_found_exactly_when_trying_everything_finds_one(model: Model, fleet: Inventory) -> None:
    possible = [
        profile.name
        for profile in model.profiles
        if any(could_take(fleet, view, profile) for view in fleet.nodes.values())
    ]
    result = place(model, fleet, engines=ENGINES)
    if isinstance(result, Placement):
        assert result.profile.name == possible[0]
        assert could_take(fleet, fleet.nodes[result.nodes[0].node], result.profile)
        check_handed_out(fleet, result)
    else:
        assert possible == []


@MANY
@given(MODELS, fleets())
def test_whatever_does_not_fit_has_one_reason_for_each_node(model: Model, fleet: Inventory) -> None:
    result = place(model, fleet, engines=ENGINES)
    tried = model.profiles
    if isinstance(result, Placement):
        tried = model.profiles[: model.profiles.index(result.profile)]
    expected = {(profile.name, name) for profile in tried for name in fleet.nodes or ("cluster",)}
    found = [(rejection.profile, rejection.node) for rejection in result.rejections]
    assert expected <= set(found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("on_gpu", (True, False))
@pytest.mark.parametrize("answer", (Placement, Unschedulable))
def test_the_clusters_above_are_of_every_sort(answer: type, on_gpu: bool) -> None:
    def such(world: tuple[Model, Inventory]) -> bool:
        model, fleet = world
        wants = model.profiles[0].gpus_per_node > 1
        result = place(model, fleet, engines=ENGINES)
        first = not isinstance(result, Placement) or result.profile == model.profiles[0]
        return wants == on_gpu and isinstance(result, answer) and first and len(fleet.nodes) > 1

    quick = settings(max_examples=2000, deadline=None, database=None, phases=[Phase.generate])
    assert find(st.tuples(MODELS, fleets()), such, settings=quick)


@MANY
@given(MODELS, fleets(), st.randoms(use_true_random=False))
def test_the_order_of_anything_changes_nothing(model: Model, fleet: Inventory, rand: Any) -> None:
    def shuffled(items: Iterable[Any]) -> list[Any]:
        mixed = list(items)
        rand.shuffle(mixed)
        return mixed

    nodes = {}
    for name, view in shuffled(fleet.nodes.items()):
        cards = tuple(shuffled(view.report.gpus))
        domains = tuple(tuple(shuffled(domain)) for domain in shuffled(view.report.nvlink_domains))
        report = view.report.model_copy(update={"gpus": cards, "nvlink_domains": domains})
        nodes[name] = NodeView(**{**vars(view), "report": report})
    other = Inventory(nodes, tuple(shuffled([*fleet.held, *fleet.held])))
    first, second = place(model, fleet, engines=ENGINES), place(model, other, engines=ENGINES)
    assert type(first) is type(second)
    if isinstance(first, Placement) and isinstance(second, Placement):
        assert (first.profile, first.nodes, first.scores) == (second.profile, second.nodes, second.scores)
    shown = [[(r.node, r.constraint, r.needed) for r in one.rejections] for one in (first, second)]
    assert shown[0] == shown[1]


@settings(max_examples=100, deadline=None)
@given(MODELS, fleets())
def test_filling_a_cluster_hands_nothing_out_twice(model: Model, fleet: Inventory) -> None:
    got: list[NodePlacement] = []
    # A replica takes at least a CPU and a port, so a full cluster is reached before this many.
    for number in range(100):
        result = place(model, fleet, engines=ENGINES)
        if isinstance(result, Unschedulable):
            break
        (one,) = result.nodes
        got.append(one)
        sizes = {"cpus": one.cpus, "memory_mib": one.memory_mib, "extra_ports": one.extra_ports}
        shard = held_shard(f"r-new{number}", one.node, gpus=one.gpus, http_port=one.http_port, **sizes)
        fleet = Inventory(fleet.nodes, (*fleet.held, shard))
    else:
        raise AssertionError("a small cluster never fills up")
    ports = [(one.node, port) for one in got for port in ports_of(one)]
    uuids = [ref.uuid for one in got for ref in one.gpus]
    assert len(set(ports)) == len(ports)
    assert len(set(uuids)) == len(uuids)
