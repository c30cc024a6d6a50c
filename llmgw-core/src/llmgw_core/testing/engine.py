"""The rules of an engine plugin, as tests to subclass.

    class TestMine(EngineTests):
        plugin = my_plugin
        name = "my-plugin"

`docs/write-a-plugin.md` says why each rule is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from llmgw_core.engine_check.variety import OPTIONS, Option, Request, shapes
from llmgw_core.testing.engine_answers import AnswerRules
from llmgw_core.testing.engine_arguments import ArgumentRules
from llmgw_core.testing.engine_commands import CommandRules, refusal_faults
from llmgw_core.testing.engine_facts import FactRules
from llmgw_core.testing.engine_suite import Answered, changed, program
from llmgw_core.testing.rules import child, rule
from llmgw_core.testing.strategies import requests_of
from llmgw_core.testing.watch import watched

if TYPE_CHECKING:
    from hypothesis import settings

__all__ = ["EngineTests"]

_DIGEST = """
import importlib
from llmgw_core.testing.engine_suite import digest
print(digest(importlib.import_module(sys.argv[1]), *sys.argv[2:]))
"""
_EXAMPLES = 300
"""Of 100 Hypothesis may leave out a whole size: its examples are much alike."""
_SEVERAL: Mapping[str, Mapping[str, Any]] = {
    "lora": {"second": "/models/second", "first": "/models/first"},
    "env": {"SECOND": "2", "FIRST": "1"},
}


class EngineTests(FactRules, CommandRules, ArgumentRules, AnswerRules):
    """Subclass it, set `plugin` and `name`, and pytest runs every rule against your plugin."""

    @rule
    def test_it_touches_nothing(self) -> None:
        """It is asked on machines where the engine is not, and by programs that may not wait."""
        for request in self._various():
            self._ask(request)  # once before: what is imported late is read from files
            with watched() as seen:
                self._ask(request)
            assert not seen, f"{request.label}: it did {', '.join(seen[:3])}"

    @rule
    def test_it_says_the_same_twice(self) -> None:
        """A command that wavers cannot be compared with the one that runs, nor looked for in a log."""
        for request in self._various():
            for field, several in _SEVERAL.items():
                orders = (several, dict(reversed([*several.items()])))
                asked = [self._try(changed(request, profile={field: order})) for order in (*orders, several)]
                said = [one.commands if isinstance(one, Answered) else str(one) for one in asked]
                assert said[0] == said[2], f"{request.label}: the same question has two answers"
                assert said[0] == said[1], f"{request.label}: the answers differ with the order of {field}"
        version = self._versions[-1]
        digests = {child(_DIGEST, self.plugin.__name__, self.name, version, seed=seed) for seed in "12"}
        assert len(digests) == 1, "two processes give different commands: is there a set without order?"

    @rule
    def test_any_profile_is_answered(self) -> None:
        """With commands or with a refusal: what else a plugin raises fails where nobody expects it."""
        from hypothesis import given

        asked = requests_of(
            self._info,
            binary=program(self._info),
            versions=self._versions,
            engine_args=self.engine_args,
        )

        # Not a method: Hypothesis refuses one that two subclasses run.
        @_quiet()
        @given(asked)
        def answered(request: Request) -> None:
            refusal = self._refusal(request)
            for fault in refusal_faults(refusal.field, refusal.reason) if refusal else ():
                raise AssertionError(fault)

        answered()

    def _various(self) -> Iterator[Request]:
        """Every rank of every shape and of every option, on the newest version."""
        version = self._versions[-1]
        for shape in shapes(self._info):
            yield from self._requests(version, shape)
        plain = Option("plain", {"gpus_per_node": self._one().request.shard.profile.gpus_per_node})
        for option in OPTIONS:
            yield from self._requests(version, plain, option)

    def _ask(self, request: Request) -> None:
        tried = self._try(request)
        if isinstance(tried, Answered):
            probes = self._probes(request)
            self._ready(request.shard, self.answers(request.shard, probes) if probes else {})


def _quiet() -> settings:
    """No example is saved or limited in time: that would say more of the machine than of the plugin."""
    from hypothesis import HealthCheck, Phase, settings

    return settings(
        max_examples=_EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),  # what it would explain takes a minute, and says nothing here
        suppress_health_check=list(HealthCheck),
    )
