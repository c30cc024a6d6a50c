"""Placing one replica: the first profile that fits, on the nodes that suit it best.

Pure and deterministic: the same model and inventory give the same answer, whatever the order of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from llmgw_core.catalog.model import Model
from llmgw_core.inventory.inventory import Inventory
from llmgw_core.placement.asked import CLUSTER, Wanted, reject
from llmgw_core.placement.capability import engine_cannot
from llmgw_core.placement.plugins import PlacementPlugins
from llmgw_core.placement.remedies import remedies
from llmgw_core.placement.result import Look, Placement, Survey, Unschedulable
from llmgw_core.placement.search import Search
from llmgw_core.placement.single import on_one_node
from llmgw_core.placement.steering import Steering
from llmgw_core.placement.weighing import on_several_nodes
from llmgw_core.spec.engine import BinarySpec, EngineInfo
from llmgw_core.spec.placement import Rejection
from llmgw_core.spec.shard import Profile


def place(
    model: Model,
    inventory: Inventory,
    *,
    engines: Mapping[str, EngineInfo] | None = None,
    plugins: PlacementPlugins | None = None,
    steering: Steering | None = None,
) -> Placement | Unschedulable:
    """A place for one more replica of `model`, whole, or every reason why there is none.

    `engines` say which ports an engine needs, how its versions compare and whether it runs over several
    nodes; without them one port, plain numbers and a single node are taken. Nothing is held by this call:
    that is done by the intents written from it.
    """

    steered = steering or Steering()

    def look(profile: Profile, here: Inventory) -> Look:
        wanted = Wanted(model, profile, _engine(profile, engines or {}))
        return _look(Search(wanted, here, plugins, steered))

    looks: list[Look] = []
    for profile in model.profiles:
        looks.append(look(profile, inventory))
        if looks[-1].nodes is not None:
            return Placement(profile, looks[-1].nodes, partial(_together, tuple(looks)))
    return Unschedulable(
        model.name,
        lambda: _together(tuple(looks)).rejections,
        lambda rejections: remedies(
            model,
            inventory,
            rejections,
            lambda changed: any(look(profile, changed).nodes is not None for profile in model.profiles),
        ),
    )


def _engine(profile: Profile, engines: Mapping[str, EngineInfo]) -> EngineInfo:
    bare = EngineInfo(name=profile.engine, title=profile.engine, binary=BinarySpec(names=()), paths=())
    return engines.get(profile.engine, bare)


def _look(search: Search) -> Look:
    nobody = _nobody_can(search)
    if nobody is not None:
        return Look(None, lambda: Survey(rejections=(nobody,)))
    return on_one_node(search) if search.wanted.profile.nodes == 1 else on_several_nodes(search)


def _together(looks: tuple[Look, ...]) -> Survey:
    """How the candidates of the last profile fared, and what all of them rejected."""
    surveys = [look.surveyed() for look in looks]
    rejections = tuple(rejection for survey in surveys for rejection in survey.rejections)
    return Survey(surveys[-1].scores, rejections, surveys[-1].notes) if surveys else Survey()


def _nobody_can(search: Search) -> Rejection | None:
    if not search.inventory.nodes:
        detail = "no node has registered; start `llmgw agent run` on one"
        needs = search.wanted.profile.nodes
        return reject(search.wanted, CLUSTER, "nodes", needs=needs, has=0, detail=detail)
    return engine_cannot(search.wanted, CLUSTER)
