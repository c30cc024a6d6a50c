"""One profile of a model against one inventory: what every way of choosing starts from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from llmgw_core.inventory.inventory import Inventory
from llmgw_core.placement.asked import Room, Wanted, reject
from llmgw_core.placement.fabrics import rails_of
from llmgw_core.placement.filters import first_rejection, fits
from llmgw_core.placement.node_state import not_placeable
from llmgw_core.placement.plugins import PlacementPlugins
from llmgw_core.placement.steering import Steering
from llmgw_core.spec.placement import Rejection


@dataclass(frozen=True)
class Search:
    """What is wanted, where, and what may move the choice."""

    wanted: Wanted
    inventory: Inventory
    plugins: PlacementPlugins | None
    steering: Steering

    def room(self, name: str, fabric: str | None = None) -> Room | None:
        """A node that may be given something at all, seen from a fabric."""
        view = self.inventory.nodes[name]
        if view.report is None or not_placeable(view) is not None:
            return None
        rails = rails_of(self.wanted, self.inventory, name, fabric)
        return Room(view, view.report, self.inventory.free(name), fabric, rails)

    def fitting(self, names: Iterable[str], fabric: str | None = None) -> Iterator[Room]:
        """The nodes among `names` that can take the profile, in that order."""
        rooms = (self.room(name, fabric) for name in names)
        return (room for room in rooms if room is not None and fits(self.wanted, room))

    def rejection(self, name: str, fabric: str | None = None) -> Rejection | None:
        """Why a node cannot take the profile; None when it can."""
        state = not_placeable(self.inventory.nodes[name])
        if state is not None:
            has, detail = state
            needs = "a node that is Ready"
            return reject(self.wanted, name, "node state", needs=needs, has=has, detail=detail, fabric=fabric)
        room = self.room(name, fabric)
        return first_rejection(self.wanted, room) if room else None

    def avoided(self, name: str) -> str | None:
        """Why the model is better placed elsewhere; None when nothing speaks against the node."""
        return self.steering.avoided(self.wanted.model.name, name)
