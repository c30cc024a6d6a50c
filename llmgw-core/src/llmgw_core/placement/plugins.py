"""Placement policies of plugins: what they reject counts, what they think adds to the score.

A filter that fails rejects everything (it may guard a licence or a contract); a score that fails counts
as 0 and is noted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from llmgw_core.placement.asked import Room, Wanted, reject
from llmgw_core.placement.result import PluginScore
from llmgw_core.placement.steering import Steering
from llmgw_core.spec.placement import Ask, Candidate, Rejection

FILTER = "llmgw_placement_filter"
SCORE = "llmgw_placement_score"


class Answer(Protocol):
    """What one plugin answered to one hook: a value, or the error that it died of."""

    @property
    def plugin(self) -> str:
        """Name of the plugin."""

    @property
    def value(self) -> Any:
        """The hook's result; None where `error` is set."""

    @property
    def error(self) -> Exception | None:
        """Why there is no result."""


class PlacementPlugins(Protocol):
    """The policies that placement asks; each call gives one answer per plugin, in name order."""

    def filter(self, ask: Ask, candidates: tuple[Candidate, ...]) -> tuple[Answer, ...]:
        """Answers whose values are tuples of Rejection."""

    def score(self, ask: Ask, candidates: tuple[Candidate, ...]) -> tuple[Answer, ...]:
        """Answers whose values are tuples of Score."""


class Hooks(Protocol):
    """What is needed of a plugin host."""

    def has(self, hook: str) -> bool:
        """Whether any plugin has a hook."""

    def call_each(self, hook: str, /, **arguments: object) -> tuple[Answer, ...]:
        """What each plugin that has a hook gives."""


@dataclass(frozen=True)
class HookPlugins:
    """PlacementPlugins by way of hooks."""

    host: Hooks

    def filter(self, ask: Ask, candidates: tuple[Candidate, ...]) -> tuple[Answer, ...]:
        """Ask every `llmgw_placement_filter`."""
        return self.host.call_each(FILTER, ask=ask, candidates=candidates)

    def score(self, ask: Ask, candidates: tuple[Candidate, ...]) -> tuple[Answer, ...]:
        """Ask every `llmgw_placement_score`."""
        return self.host.call_each(SCORE, ask=ask, candidates=candidates)


def policies_of(host: Hooks) -> PlacementPlugins | None:
    """The policies of the plugins of a host; None where there are none, and nodes need not be weighed."""
    return HookPlugins(host) if host.has(FILTER) or host.has(SCORE) else None


def plugin_rejections(
    wanted: Wanted, rooms: tuple[Room, ...], plugins: PlacementPlugins | None
) -> tuple[Rejection, ...]:
    """What plugins reject among the nodes that passed every filter of our own."""
    rejections: list[Rejection] = []
    names = frozenset(room.name for room in rooms)
    if plugins is None or not rooms:
        return ()
    for answer in plugins.filter(_ask(wanted), _candidates(rooms)):
        if answer.error is not None:
            rejections.extend(_failed(wanted, name, answer) for name in sorted(names))
        else:
            rejections.extend(_signed(given, answer) for given in answer.value or () if given.node in names)
    return tuple(rejections)


def plugin_scores(
    wanted: Wanted, rooms: tuple[Room, ...], plugins: PlacementPlugins | None, steering: Steering
) -> tuple[dict[str, tuple[PluginScore, ...]], tuple[str, ...]]:
    """Scores by node, and a note for each plugin whose scores could not be had."""
    scores: dict[str, tuple[PluginScore, ...]] = {room.name: () for room in rooms}
    notes: list[str] = []
    for answer in plugins.score(_ask(wanted), _candidates(rooms)) if plugins and rooms else ():
        if answer.error is not None:
            notes.append(f"the scores of plugin {answer.plugin} count as 0: {answer.error}")
            continue
        # The last word on a candidate counts, so that a plugin cannot vote twice.
        for given in {score.candidate: score for score in answer.value or ()}.values():
            if given.candidate in scores:
                weight = steering.weight(answer.plugin)
                scores[given.candidate] += (PluginScore(answer.plugin, given.score, given.reason, weight),)
    return scores, tuple(notes)


def _ask(wanted: Wanted) -> Ask:
    return Ask(model=wanted.model.name, profile=wanted.profile)


def _candidates(rooms: tuple[Room, ...]) -> tuple[Candidate, ...]:
    return tuple(_candidate(room) for room in rooms)


def _candidate(room: Room) -> Candidate:
    name, free = room.name, room.free
    return Candidate(
        id=name,
        nodes=(name,),
        fabric=room.fabric,
        free_gpus={name: len(free.gpus)},
        free_cpus={name: free.cpus},
        free_memory_mib={name: free.memory_mib},
        labels={name: room.report.labels},
    )


def _failed(wanted: Wanted, node: str, answer: Answer) -> Rejection:
    constraint = f"plugin {answer.plugin}"
    return reject(wanted, node, constraint, needs="its answer", has="an error", detail=str(answer.error))


def _signed(given: Rejection, answer: Answer) -> Rejection:
    # Whoever rejects is named, whatever the plugin calls its constraint.
    return given.model_copy(update={"constraint": f"plugin {answer.plugin}: {given.constraint}"})
