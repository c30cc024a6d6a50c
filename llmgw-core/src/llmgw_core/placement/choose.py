"""Which of the nodes that fit is taken, and what of it."""

from __future__ import annotations

from dataclasses import dataclass

from llmgw_core.placement.asked import Room, Wanted
from llmgw_core.placement.gpus import choose_gpus
from llmgw_core.placement.plugins import PlacementPlugins, plugin_scores
from llmgw_core.placement.ports import choose_ports
from llmgw_core.placement.result import CandidateScore, NodePlacement
from llmgw_core.spec.shard import GpuRef


@dataclass(frozen=True)
class Choice:
    """The node taken, how all that fit fared, best first, and what could not be counted."""

    room: Room
    scores: tuple[CandidateScore, ...]
    notes: tuple[str, ...] = ()


def choose(wanted: Wanted, rooms: tuple[Room, ...], plugins: PlacementPlugins | None) -> Choice:
    """The best of one or more nodes that fit.

    The fullest first, so that whole nodes stay free for models that cannot be split; plugins' scores
    are added to that.
    """
    fullest = sorted(rooms, key=lambda room: room.fullness)
    by_plugin, notes = plugin_scores(wanted, rooms, plugins) if plugins else ({}, ())
    scores = [
        CandidateScore(room.name, 1 - rank / len(fullest), by_plugin.get(room.name, ()))
        for rank, room in enumerate(fullest)
    ]
    # The sort is stable: equal totals stay in the order of fullness.
    best = sorted(scores, key=lambda score: -score.total)
    by_name = {room.name: room for room in rooms}
    return Choice(by_name[best[0].candidate], tuple(best), notes)


def take(wanted: Wanted, room: Room) -> NodePlacement:
    """What the replica gets of a node that passed every filter."""
    profile = wanted.profile
    gpus = choose_gpus(profile, room)
    ports = choose_ports(wanted, room.free.ports)
    if gpus is None or ports is None:
        raise AssertionError(f"{room.name} passed the filters but cannot take {profile.name}")
    http, extra = ports
    return NodePlacement(
        node=room.name,
        address=room.report.address,
        gpus=tuple(GpuRef(index=gpu.index, uuid=gpu.uuid) for gpu in gpus),
        cpus=profile.cpus,
        memory_mib=profile.memory_mib,
        http_port=http,
        extra_ports=extra,
    )
