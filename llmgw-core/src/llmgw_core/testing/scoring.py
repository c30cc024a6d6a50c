"""The rules of a placement policy, as tests to subclass: nodes in, scores and rejections out.

    class TestMine(ScoringTests):
        plugin = my_plugin
        name = "my-plugin"

`docs/write-a-plugin.md` says why each rule is there.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import permutations
from types import ModuleType
from typing import Any

from llmgw_core.plugins import PluginHost
from llmgw_core.spec import Ask, Candidate, Profile
from llmgw_core.testing.rules import PluginTests, child, rule
from llmgw_core.testing.watch import watched

__all__ = ["ScoringTests"]

_HOOKS = ("llmgw_placement_filter", "llmgw_placement_score")
_DIGEST = """
import importlib
from llmgw_core.testing.scoring import digest
print(digest(importlib.import_module(sys.argv[1])))
"""


def _ask(model: str, **profile: Any) -> Ask:
    return Ask(model=model, profile=Profile(name="p", engine="llamacpp", **profile))


def _candidate(name: str, *, gpus: int = 0, cpus: int = 8, memory: int = 1024, **labels: str) -> Candidate:
    return Candidate(
        id=name,
        nodes=(name,),
        fabric=labels.pop("fabric", None),
        free_gpus={name: gpus},
        free_cpus={name: cpus},
        free_memory_mib={name: memory},
        labels={name: labels},
    )


_ASKS = (
    _ask("small"),
    _ask("large", gpus_per_node=8, tensor_parallel=8, gpu_class="h100", cpus=64, memory_mib=10**6),
    _ask("wide", nodes=2, gpus_per_node=4, tensor_parallel=4, pipeline_parallel=2),
    _ask("picky", node_selector={"zone": "a"}, env={"A": "1"}, engine_args={"threads": 2}),
)
_CANDIDATES = (
    _candidate("node-a", zone="a", rack="1"),
    _candidate("node-b", gpus=8, cpus=128, memory=2 * 10**6, fabric="ib-1", zone="b"),
    _candidate("node-c", cpus=0, memory=0),
    Candidate(id="bare", nodes=("bare",)),
)


class ScoringTests(PluginTests):
    """Subclass it, set `plugin` and `name`, and pytest runs every rule against your plugin."""

    kind = "scoring"
    asks: tuple[Ask, ...] = _ASKS
    """What is to be placed."""
    candidates: tuple[Candidate, ...] = _CANDIDATES
    """Where it could be; those with labels that your policy reads make the rules mean more."""

    @rule
    def test_it_touches_nothing(self) -> None:
        """It is asked within a pass over the whole cluster, which waits for it."""
        for ask in self.asks:
            self._answers(ask, self.candidates)  # once before: what is imported late is read from files
            with watched() as seen:
                self._answers(ask, self.candidates)
            assert not seen, f"{ask.model}: it did {', '.join(seen[:3])}"

    @rule
    def test_it_says_the_same_twice(self) -> None:
        """An opinion that wavers moves replicas about, and cannot be explained afterwards."""
        for ask in self.asks:
            first, second = (self._answers(ask, self.candidates) for _ in range(2))
            assert first == second, f"{ask.model}: the same question has two answers"
        digests = {child(_DIGEST, self.plugin.__name__, seed=seed) for seed in "12"}
        assert len(digests) == 1, "two processes give different answers: is there a set without order?"

    @rule
    def test_the_order_of_nodes_does_not_matter(self) -> None:
        """Nodes report in any order; which comes first says nothing of them."""
        for ask in self.asks:
            wanted = {hook: _unordered(found) for hook, found in self._answers(ask, self.candidates).items()}
            for order in permutations(self.candidates):
                found = {hook: _unordered(found) for hook, found in self._answers(ask, order).items()}
                assert found == wanted, f"{ask.model}: another order of the nodes gives other answers"

    @rule
    def test_every_score_is_one_of_its_own(self) -> None:
        """One score from 0 to 1 for each node; what is above would outweigh every other policy."""
        names = {candidate.id for candidate in self.candidates}
        for ask, scores in self._found("llmgw_placement_score"):
            ids = Counter(score.candidate for score in scores)
            strange = ids.keys() - names
            assert not strange, (
                f"{ask.model}: it scores {', '.join(sorted(strange))}, which was not asked for"
            )
            for candidate in self.candidates:
                times = ids[candidate.id]
                assert times == 1, f"{ask.model}: {candidate.id} has {times} scores"
            for score in scores:
                assert 0.0 <= score.score <= 1.0, f"{ask.model}: {score.candidate} has {score.score}"

    @rule
    def test_every_rejection_says_why(self) -> None:
        """An operator reads it as it is: which node, what it would need and what it has."""
        for ask, rejections in self._found("llmgw_placement_filter"):
            names = {candidate.id for candidate in self.candidates}
            for one in rejections:
                assert one.node in names, f"{ask.model}: it rejects {one.node}, which was not asked for"
                assert one.profile == ask.profile.name, f"{ask.model}: it names the profile {one.profile!r}"
                for field in ("constraint", "needed", "had"):
                    assert getattr(one, field).strip(), f"{ask.model}: rejecting {one.node} it has no {field}"

    @rule
    def test_no_nodes_are_no_answer(self) -> None:
        """A cluster without nodes is where every cluster begins."""
        for ask in self.asks:
            for hook, found in self._answers(ask, ()).items():
                assert found == (), f"{ask.model}: {hook} answers for nodes that are not there"

    @rule
    def test_it_changes_nothing_that_it_is_given(self) -> None:
        """The next policy is given the same values."""
        for ask in self.asks:
            before = repr((ask, self.candidates))
            self._answers(ask, self.candidates)
            assert repr((ask, self.candidates)) == before, f"{ask.model}: it has changed what it was given"

    def _answers(self, ask: Ask, candidates: tuple[Candidate, ...]) -> Mapping[str, tuple[Any, ...]]:
        return answers_of(self._plugins, ask, candidates)

    def _found(self, hook: str) -> Iterator[tuple[Ask, Any]]:
        for ask in self.asks:
            found = self._answers(ask, self.candidates)
            if hook in found:
                yield ask, found[hook]


def answers_of(
    plugins: PluginHost, ask: Ask, candidates: tuple[Candidate, ...]
) -> Mapping[str, tuple[Any, ...]]:
    """What a policy gives for each hook that it has."""
    found: dict[str, tuple[Any, ...]] = {}
    for hook in _HOOKS:
        for outcome in plugins.call_each(hook, ask=ask, candidates=candidates):
            if outcome.error is not None:
                raise outcome.error
            found[hook] = outcome.value
    return found


def digest(plugin: ModuleType) -> str:
    """Stands for every answer to the suite's own questions, so that two processes can compare theirs."""
    plugins = PluginHost.of(plugin)
    shown = [answers_of(plugins, ask, _CANDIDATES) for ask in _ASKS]
    return hashlib.sha256(repr(shown).encode()).hexdigest()


def _unordered(found: tuple[Any, ...]) -> Counter[str]:
    return Counter(map(repr, found))
