"""Plugins' policies: filters fail closed, scores fail open, and both are named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from llmgw_core.placement.place import place
from llmgw_core.placement.plugins import policies_of
from llmgw_core.placement.result import Placement, PluginScore, Unschedulable
from llmgw_core.placement.steering import Steering
from llmgw_core.plugins import Outcome, PluginHost
from llmgw_core.spec import (
    HOOK_API,
    Ask,
    Candidate,
    PluginFailed,
    PluginInfo,
    Rejection,
    Score,
    hookimpl,
)

Build = Callable[..., Any]


@dataclass(frozen=True)
class Policies:
    """Answers that were decided beforehand."""

    filters: tuple[Outcome, ...] = ()
    scores: tuple[Outcome, ...] = ()

    def filter(self, ask: Ask, candidates: tuple[Candidate, ...]) -> tuple[Outcome, ...]:
        """What the filters answer to anything."""
        return self.filters

    def score(self, ask: Ask, candidates: tuple[Candidate, ...]) -> tuple[Outcome, ...]:
        """What the scorers answer to anything."""
        return self.scores


class Moody:
    """Scores `b` high once and never again."""

    def __init__(self) -> None:
        self.asked = 0

    def filter(self, ask: Ask, candidates: tuple[Candidate, ...]) -> tuple[Outcome, ...]:
        """No objection."""
        return ()

    def score(self, ask: Ask, candidates: tuple[Candidate, ...]) -> tuple[Outcome, ...]:
        """Another answer each time."""
        self.asked += 1
        return (Outcome("moody", (Score(candidate="b", score=1.0 if self.asked == 1 else 0.0),)),)


def no(node: str) -> Rejection:
    """A plugin's rejection of a node."""
    return Rejection(profile="p", node=node, constraint="licence", needed="1", had="0")


def test_a_plugins_rejection_counts_and_is_signed(node: Build, model: Build, fleet: Build) -> None:
    policies = Policies(filters=(Outcome("guard", (no("a"), no("elsewhere"))),))
    result = place(model(), fleet(node("a"), node("b")), plugins=policies)
    assert isinstance(result, Placement)
    assert result.nodes[0].node == "b"
    assert [str(r) for r in result.rejections] == ["a: plugin guard: licence: needs 1, has 0"]


def test_a_filter_that_fails_rejects_everything(node: Build, model: Build, fleet: Build) -> None:
    policies = Policies(filters=(Outcome("guard", error=PluginFailed("guard", "f", "boom")),))
    result = place(model(), fleet(node("a"), node("b")), plugins=policies)
    assert isinstance(result, Unschedulable)
    assert [(r.node, r.constraint, r.had) for r in result.rejections] == [
        ("a", "plugin guard", "an error"),
        ("b", "plugin guard", "an error"),
    ]
    assert "boom" in result.rejections[0].detail


def test_scores_are_added_to_the_packing(node: Build, model: Build, fleet: Build) -> None:
    policies = Policies(
        scores=(
            Outcome("quiet", ()),
            Outcome(
                "warm", (Score(candidate="b", score=0.75, reason="cached"), Score(candidate="x", score=1))
            ),
        )
    )
    result = place(model(), fleet(node("a"), node("b")), plugins=policies)
    assert isinstance(result, Placement)
    assert result.nodes[0].node == "b"
    assert [(s.candidate, s.packing, s.total) for s in result.scores] == [("b", 0.5, 1.25), ("a", 1.0, 1.0)]
    assert result.scores[0].plugins == (PluginScore("warm", 0.75, "cached"),)


def test_equal_totals_go_to_the_fuller_node(node: Build, model: Build, fleet: Build) -> None:
    policies = Policies(scores=(Outcome("even", (Score(candidate="b", score=0.5),)),))
    result = place(model(), fleet(node("a"), node("b")), plugins=policies)
    assert isinstance(result, Placement)
    assert result.nodes[0].node == "a"


def test_a_plugin_votes_once_for_a_candidate(node: Build, model: Build, fleet: Build) -> None:
    policies = Policies(scores=(Outcome("twice", (Score(candidate="b", score=0.4),) * 2),))
    result = place(model(), fleet(node("a"), node("b")), plugins=policies)
    assert isinstance(result, Placement)
    assert result.nodes[0].node == "a"


def test_a_score_that_fails_counts_as_0_and_is_noted(node: Build, model: Build, fleet: Build) -> None:
    policies = Policies(scores=(Outcome("warm", error=PluginFailed("warm", "s", "boom")),))
    result = place(model(), fleet(node("a"), node("b")), plugins=policies)
    assert isinstance(result, Placement)
    assert result.nodes[0].node == "a"
    (note,) = result.notes
    assert note.startswith("the scores of plugin warm count as 0: ")
    assert "boom" in note


def test_without_a_policy_nobody_is_asked() -> None:
    assert policies_of(PluginHost.of()) is None


def test_the_operators_weights_count(node: Build, model: Build, fleet: Build) -> None:
    policies = Policies(
        scores=(
            Outcome("loud", (Score(candidate="b", score=1.0),)),
            Outcome("calm", (Score(candidate="a", score=0.25),)),
        )
    )
    here = fleet(node("a"), node("b"))
    for weights, expected in (({}, "b"), ({"loud": 0.1}, "a"), ({"loud": 0.6, "calm": 0.0}, "b")):
        result = place(model(), here, plugins=policies, steering=Steering(weights=weights))
        assert isinstance(result, Placement)
        assert result.nodes[0].node == expected
        given = {one.plugin: one.weight for score in result.scores for one in score.plugins}
        assert given == {"loud": weights.get("loud", 1.0), "calm": weights.get("calm", 1.0)}


def test_plugins_are_asked_once_though_the_explanation_tells_what_they_said(
    node: Build, model: Build, fleet: Build
) -> None:
    moody = Moody()
    result = place(model(), fleet(node("a"), node("b")), plugins=moody)
    assert isinstance(result, Placement)
    assert (result.nodes[0].node, result.scores[0].candidate, moody.asked) == ("b", "b", 1)


def test_a_real_plugin_sees_the_ask_and_the_candidates(node: Build, model: Build, fleet: Build) -> None:
    seen: list[tuple[Ask, tuple[Candidate, ...]]] = []

    @hookimpl
    def llmgw_plugin_info() -> PluginInfo:
        return PluginInfo(name="policy", kind="scoring", api=HOOK_API, summary="rejects a, watches b")

    @hookimpl
    def llmgw_placement_filter(ask: Ask, candidates: tuple[Candidate, ...]) -> tuple[Rejection, ...]:
        seen.append((ask, candidates))
        return (no("a"),)

    @hookimpl
    def llmgw_placement_score(candidates: tuple[Candidate, ...]) -> tuple[Score, ...]:
        return tuple(Score(candidate=one.id, score=1.0) for one in candidates)

    plugin = SimpleNamespace(
        __name__="policy",
        llmgw_plugin_info=llmgw_plugin_info,
        llmgw_placement_filter=llmgw_placement_filter,
        llmgw_placement_score=llmgw_placement_score,
    )
    host = PluginHost.of(plugin)
    assert [refused.reason for refused in host.refused] == []
    here = fleet(node("a", gpus=2, labels={"rack": "7"}), node("b"), node("small", cpus=1))
    result = place(model(cpus=2), here, plugins=policies_of(host))
    assert isinstance(result, Placement)
    assert result.nodes[0].node == "b"
    assert result.scores[0].plugins == (PluginScore("policy", 1.0),)
    ((ask, candidates),) = seen
    assert (ask.model, ask.profile.cpus) == ("m", 2)
    assert [one.id for one in candidates] == ["a", "b"]
    assert candidates[0] == Candidate(
        id="a",
        nodes=("a",),
        free_gpus={"a": 2},
        free_cpus={"a": 8},
        free_memory_mib={"a": 16000},
        labels={"a": {"rack": "7"}},
    )
