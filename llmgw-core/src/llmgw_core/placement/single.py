"""A replica on one node: the fullest that fits, so that whole nodes stay free for what cannot be split."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw_core.placement.asked import Room
from llmgw_core.placement.plugins import plugin_rejections, plugin_scores
from llmgw_core.placement.result import CandidateScore, Look, Survey
from llmgw_core.placement.search import Search
from llmgw_core.placement.steering import PENALTY
from llmgw_core.placement.take import take


def on_one_node(search: Search) -> Look:
    """The node that suits best. Without plugins it is found without scoring the others."""
    if search.plugins is None:
        room = _first(search)
        return Look((take(search.wanted, room),) if room else None, lambda: survey(search))
    # Plugins are asked once: what they say is what is done and what is told.
    seen = survey(search)
    room = search.room(seen.scores[0].candidate) if seen.scores else None
    return Look((take(search.wanted, room),) if room else None, lambda: seen)


def _first(search: Search) -> Room | None:
    """The node with the best score when only packing and penalties make it: found without scoring."""
    put_off = None
    for room in search.fitting(_fullest(search)):
        if search.avoided(room.name) is None:
            return room
        put_off = put_off or room
    return put_off


def _fullest(search: Search) -> Iterator[str]:
    profile = search.wanted.profile
    if profile.gpus_per_node and profile.gpu_class is None:
        return iter(())
    gpu_class = profile.gpu_class if profile.gpus_per_node else None
    return search.inventory.ranking.fullest(gpu_class, profile.gpus_per_node)


def survey(search: Search) -> Survey:
    """Every node: why it cannot take the profile, or how it fared."""
    names = sorted(search.inventory.nodes)
    found = (search.rejection(name) for name in names)
    rejections = tuple(rejection for rejection in found if rejection is not None)
    out = {rejection.node for rejection in rejections}
    rooms = tuple(search.fitting(name for name in names if name not in out))
    by_plugins = plugin_rejections(search.wanted, rooms, search.plugins)
    out = {rejection.node for rejection in by_plugins}
    scores, notes = _scores(search, tuple(room for room in rooms if room.name not in out))
    return Survey(scores, rejections + by_plugins, notes)


def _scores(search: Search, rooms: tuple[Room, ...]) -> tuple[tuple[CandidateScore, ...], tuple[str, ...]]:
    fullest = sorted(rooms, key=lambda room: room.fullness)
    by_plugin, notes = plugin_scores(search.wanted, rooms, search.plugins, search.steering)
    scores = []
    for rank, room in enumerate(fullest):
        avoided = search.avoided(room.name)
        packing, penalty = 1 - rank / len(fullest), PENALTY if avoided else 0.0
        scores.append(CandidateScore(room.name, packing, by_plugin[room.name], penalty, avoided or ""))
    # The sort is stable: equal totals stay in the order of fullness.
    return tuple(sorted(scores, key=lambda score: -score.total)), notes
