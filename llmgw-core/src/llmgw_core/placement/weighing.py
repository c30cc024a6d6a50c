"""Every group of nodes weighed: how its best team fares, or why it has none.

This is how a replica over several nodes is placed where plugins have a say, and how it is explained.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmgw_core.placement.asked import CLUSTER, Room, reject
from llmgw_core.placement.fabrics import Group, groups_for
from llmgw_core.placement.plugins import plugin_rejections, plugin_scores
from llmgw_core.placement.result import CandidateScore, Look, PluginScore, Survey
from llmgw_core.placement.search import Search
from llmgw_core.placement.steering import PENALTY
from llmgw_core.placement.team import Team, by_share_left, emptiest, first_team, kinships, pick
from llmgw_core.spec.placement import Rejection

MAX_NAMED = 3
"""Nodes that the row of a fabric names; the others have rows of their own in the data."""


@dataclass(frozen=True)
class Weighed:
    """One group; without a team there is no score."""

    title: str
    rejections: tuple[Rejection, ...]
    notes: tuple[str, ...] = ()
    team: Team | None = None
    score: CandidateScore | None = None


def on_several_nodes(search: Search) -> Look:
    """The team that suits best. Without plugins it is found without weighing the others."""
    if search.plugins is None:
        team = first_team(search)
        nodes = team.placements(search.wanted) if team else None
        return Look(nodes, lambda: _survey(search, weigh_groups(search)))
    # Plugins are asked once: what they say is what is done and what is told.
    weighed = weigh_groups(search)
    best = next(iter(_best_first(weighed)), None)
    nodes = best.team.placements(search.wanted) if best and best.team else None
    return Look(nodes, lambda: _survey(search, weighed))


def _survey(search: Search, weighed: tuple[Weighed, ...]) -> Survey:
    by_name = sorted(weighed, key=lambda one: one.title)
    rejections = [*(said for one in by_name for said in one.rejections), *_strays(search)]
    if not weighed:
        needs = f"one that joins {search.wanted.profile.nodes} nodes"
        detail = "no node has an adapter on a fabric that is certain"
        rejections.insert(0, reject(search.wanted, CLUSTER, "fabric", needs=needs, has="none", detail=detail))
    return Survey(
        scores=tuple(one.score for one in _best_first(weighed) if one.score is not None),
        rejections=tuple(rejections),
        notes=tuple(dict.fromkeys(note for one in weighed for note in one.notes)),
    )


def _best_first(weighed: tuple[Weighed, ...]) -> list[Weighed]:
    scored = [one for one in weighed if one.score is not None]
    return sorted(scored, key=lambda one: -(one.score.total if one.score else 0.0))


def weigh_groups(search: Search) -> tuple[Weighed, ...]:
    """Every group, those that lose least by the replica first, then those that are too small."""
    groups = groups_for(search.wanted, search.inventory)
    shares = by_share_left(search, groups)
    large = {group.title for _, group in shares}
    small = ((0.0, group) for group in groups if group.title not in large)
    return tuple(_weigh(search, group, left) for left, group in (*shares, *small))


def _weigh(search: Search, group: Group, left: float) -> Weighed:
    said = tuple(
        rejection for name in group.nodes if (rejection := search.rejection(name, group.fabric)) is not None
    )
    rooms = tuple(search.fitting(emptiest(search, group), group.fabric))
    by_plugins = plugin_rejections(search.wanted, rooms, search.plugins)
    out = {rejection.node for rejection in by_plugins}
    rooms = tuple(room for room in rooms if room.name not in out)
    scores, notes = plugin_scores(search.wanted, rooms, search.plugins, search.steering)
    team = pick(search.wanted, _by_plugins(search, rooms, scores))
    rejections = tuple(one.model_copy(update={"fabric": group.title}) for one in (*said, *by_plugins))
    if team is None:
        row = _too_few(search, group, rooms, rejections)
        return Weighed(group.title, (row, *rejections), notes)
    return Weighed(group.title, rejections, notes, team, _score(search, team, left, scores))


def _by_plugins(
    search: Search, rooms: tuple[Room, ...], scores: dict[str, tuple[PluginScore, ...]]
) -> tuple[Room, ...]:
    """Nodes, emptiest first, moved by plugins' scores and penalties as on a single node."""
    if search.plugins is None:
        return rooms
    totals = {
        room.name: CandidateScore(
            room.name,
            1 - rank / len(rooms),
            scores[room.name],
            PENALTY if search.avoided(room.name) else 0.0,
        ).total
        for rank, room in enumerate(rooms)
    }
    return tuple(sorted(rooms, key=lambda room: -totals[room.name]))


def _score(
    search: Search, team: Team, left: float, scores: dict[str, tuple[PluginScore, ...]]
) -> CandidateScore:
    names = [room.name for room in team.rooms]
    avoided = "; ".join(f"{name}: {why}" for name in names if (why := search.avoided(name)))
    given = [score for name in names for score in scores[name]]
    title = " + ".join(names) + (f" ({team.rooms[0].fabric})" if team.rooms[0].fabric else "")
    return CandidateScore(title, left, _means(given, len(names)), PENALTY if avoided else 0.0, avoided)


def _means(given: list[PluginScore], nodes: int) -> tuple[PluginScore, ...]:
    """What each plugin thinks of the team: the mean over its nodes, 0 for those without a score."""
    by_plugin: dict[str, list[PluginScore]] = {}
    for score in given:
        by_plugin.setdefault(score.plugin, []).append(score)
    return tuple(
        PluginScore(
            plugin,
            sum(score.score for score in own) / nodes,
            "; ".join(dict.fromkeys(score.reason for score in own if score.reason)),
            own[0].weight,
        )
        for plugin, own in by_plugin.items()
    )


def _too_few(
    search: Search, group: Group, rooms: tuple[Room, ...], rejections: tuple[Rejection, ...]
) -> Rejection:
    """Why a group has no team: how many of its nodes could join, and what keeps the others out."""
    wanted = search.wanted
    kin = [one for room in rooms for one in kinships(wanted, room)]
    most = max((kin.count(one) for one in set(kin)), default=0)
    detail = _why_few(rejections)
    if len(rooms) >= wanted.profile.nodes:
        detail = _why_apart(kin) or "none of them has the leader's ports in a row"
    return reject(
        wanted,
        group.title,
        "nodes",
        needs=wanted.profile.nodes,
        has=most,
        detail=detail,
        fabric=group.title,
    )


def _why_few(rejections: tuple[Rejection, ...]) -> str:
    # A node with other GPUs could never join, so it says less than one that might.
    near = [one for one in rejections if one.constraint not in ("GPU class", "node selector")]
    named = [_in_words(one) for one in (near or rejections)[:MAX_NAMED]]
    more = len(near or rejections) - len(named)
    return "; ".join((*named, f"and {more} more") if more else named)


def _in_words(rejection: Rejection) -> str:
    if rejection.constraint == "node state":
        return f"{rejection.node} {rejection.had}: {rejection.detail}"
    if rejection.constraint == "fabric":
        return f"{rejection.node}: {rejection.detail}"
    detail = f" ({rejection.detail})" if rejection.detail else ""
    return f"{rejection.node}: {rejection.constraint} {rejection.had} of {rejection.needed}{detail}"


def _why_apart(kin: list[tuple[str, str]]) -> str:
    layers, versions = ({one[place] for one in kin} for place in (0, 1))
    apart = [f"{', '.join(sorted(found))}" for found in (layers, versions) if len(found) > 1]
    return f"they cannot be mixed: {'; '.join(apart)}" if apart else ""


def _strays(search: Search) -> tuple[Rejection, ...]:
    """Nodes that no fabric attaches to others."""
    grouped = {name for group in groups_for(search.wanted, search.inventory) for name in group.nodes}
    found = (search.rejection(name) for name in sorted(search.inventory.nodes) if name not in grouped)
    return tuple(rejection for rejection in found if rejection is not None)
