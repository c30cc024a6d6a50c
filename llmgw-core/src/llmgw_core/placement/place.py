"""Placing one replica: the first profile that fits, on the node that suits it best.

Pure and deterministic: the same model and inventory give the same answer, whatever the order of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_core.catalog.model import Model
from llmgw_core.inventory.inventory import Inventory
from llmgw_core.placement.asked import Room, Wanted, reject
from llmgw_core.placement.choose import Choice, choose, take
from llmgw_core.placement.filters import first_rejection
from llmgw_core.placement.node_state import not_placeable
from llmgw_core.placement.plugins import PlacementPlugins, plugin_rejections
from llmgw_core.placement.result import Placement, Unschedulable
from llmgw_core.spec.engine import BinarySpec, EngineInfo
from llmgw_core.spec.placement import Rejection
from llmgw_core.spec.shard import Profile

CLUSTER = "cluster"
"""Stands for the node in a rejection that concerns no single one."""


def place(
    model: Model,
    inventory: Inventory,
    *,
    engines: Mapping[str, EngineInfo] | None = None,
    plugins: PlacementPlugins | None = None,
) -> Placement | Unschedulable:
    """A place for one more replica of `model`, whole, or every reason why there is none.

    `engines` say which ports an engine needs and how its versions compare; without them one port and
    plain numbers are taken. Nothing is held by this call: that is done by the intent written from it.
    """
    rejected: list[Rejection] = []
    for profile in model.profiles:
        wanted = Wanted(model, profile, _engine(profile, engines or {}))
        rooms, rejections = _fitting(wanted, inventory, plugins)
        rejected.extend(rejections)
        if rooms:
            return _placed(wanted, choose(wanted, rooms, plugins), tuple(rejected))
    return Unschedulable(model.name, tuple(rejected))


def _engine(profile: Profile, engines: Mapping[str, EngineInfo]) -> EngineInfo:
    bare = EngineInfo(name=profile.engine, title=profile.engine, binary=BinarySpec(names=()), paths=())
    return engines.get(profile.engine, bare)


def _fitting(
    wanted: Wanted, inventory: Inventory, plugins: PlacementPlugins | None
) -> tuple[tuple[Room, ...], tuple[Rejection, ...]]:
    """The nodes that can take the profile, by name, and why the others cannot."""
    nobody = _nobody_can(wanted, inventory)
    if nobody is not None:
        return (), (nobody,)
    looks = [_look(wanted, name, inventory) for name in sorted(inventory.nodes)]
    rooms = tuple(look for look in looks if isinstance(look, Room))
    rejections = tuple(look for look in looks if isinstance(look, Rejection))
    if plugins is not None and rooms:
        by_plugins = plugin_rejections(wanted, rooms, plugins)
        out = {rejection.node for rejection in by_plugins}
        return tuple(room for room in rooms if room.name not in out), rejections + by_plugins
    return rooms, rejections


def _nobody_can(wanted: Wanted, inventory: Inventory) -> Rejection | None:
    nodes = wanted.profile.nodes
    if not inventory.nodes:
        detail = "no node has registered; start `llmgw agent run` on one"
        return reject(wanted, CLUSTER, "nodes", needs=nodes, has=0, detail=detail)
    if nodes > 1:
        detail = "placement over several nodes is not built yet"
        return reject(wanted, CLUSTER, "nodes", needs=nodes, has="1 for each replica", detail=detail)
    return None


def _look(wanted: Wanted, name: str, inventory: Inventory) -> Room | Rejection:
    view = inventory.nodes[name]
    state = not_placeable(view)
    if state is not None:
        return reject(wanted, name, "node state", needs="a node that is Ready", has=state[0], detail=state[1])
    if view.report is None:
        raise AssertionError("a node without a report was found placeable")
    room = Room(view, view.report, inventory.free(name))
    return first_rejection(wanted, room) or room


def _placed(wanted: Wanted, choice: Choice, rejected: tuple[Rejection, ...]) -> Placement:
    return Placement(
        profile=wanted.profile,
        nodes=(take(wanted, choice.room),),
        scores=choice.scores,
        rejections=rejected,
        notes=choice.notes,
    )
