"""How long a silence means what: the verdict on a node."""

from __future__ import annotations

from llmgw_core.inventory.node_view import Freshness
from llmgw_core.timers import Timers


def freshness(
    silence: float,
    timers: Timers,
    *,
    was_lost: bool = False,
    amnesty: bool = False,
    brake: bool = False,
) -> Freshness:
    """The verdict on a node that was last heard `silence` seconds ago.

    `was_lost`: it was given up before, and stays Lost until it is heard again. `amnesty`: the leader is
    new or was itself paused, so silence may be its own: nothing worse than late. `brake`: so many nodes
    fell silent at once that the fault is suspected here: nobody is given up.
    """
    if silence < timers.late:
        return "ready"
    if was_lost:
        return "lost"
    if silence < timers.unreachable or amnesty:
        return "late"
    if silence < timers.lost or brake:
        return "unreachable"
    return "lost"
