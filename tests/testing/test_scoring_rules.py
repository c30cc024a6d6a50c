"""Each rule of ScoringTests is broken by a policy with one defect, and that rule says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from llmgw_core.testing.rules import PAGE, anchor
from llmgw_core.testing.scoring import ScoringTests

from .conftest import Install, defects_of

PACKAGE, NAME = "llmgw_tests_policy", "policy"
GOOD = """
import pathlib, random, socket
from llmgw_core.spec import HOOK_API, Candidate, PluginInfo, Profile, Rejection, Score, hookimpl

@hookimpl
def llmgw_plugin_info():
    return PluginInfo(name="policy", kind="scoring", api=HOOK_API, summary="for tests")

@hookimpl
def llmgw_placement_score(ask, candidates):
    return scores(candidates)

@hookimpl
def llmgw_placement_filter(ask, candidates):
    return rejections(ask, candidates)

def scores(candidates):
    return tuple(Score(candidate=one.id, score=0.5 if one.fabric else 0.0) for one in candidates)

def rejections(ask, candidates):
    return rejected(ask, (one for one in candidates if not sum(one.free_cpus.values())))

def rejected(ask, candidates):
    return tuple(
        Rejection(profile=ask.profile.name, node=one.id, constraint="cpus", needed="some", had="none")
        for one in candidates
    )
"""
DEFECTS = defects_of(Path(__file__).with_name("defects").joinpath("scoring.txt").read_text())
RULES = sorted(name for name in dir(ScoringTests) if name.startswith("test_"))


@pytest.fixture
def policy(installed: Install) -> Callable[[str], ModuleType]:
    """Installs the good policy with some more source at its end."""
    return lambda defect: installed(PACKAGE, {"__init__.py": GOOD + defect}, NAME)


class Suite(ScoringTests):
    """What a policy's author would write, made on the spot."""

    def __init__(self, plugin: ModuleType) -> None:
        self.plugin = plugin
        self.name = NAME


@pytest.mark.parametrize("rule", RULES)
def test_a_good_policy_keeps_every_rule(rule: str, policy: Callable[[str], ModuleType]) -> None:
    getattr(Suite(policy("")), rule)()


@pytest.mark.parametrize("hook", ("llmgw_placement_score", "llmgw_placement_filter"))
@pytest.mark.parametrize("rule", RULES)
def test_a_policy_with_one_of_the_two_hooks_keeps_every_rule(
    rule: str, hook: str, policy: Callable[[str], ModuleType]
) -> None:
    getattr(Suite(policy(f"del {hook}\n")), rule)()


@pytest.mark.parametrize(("rule", "source"), DEFECTS)
def test_a_defect_breaks_the_rule_that_is_about_it_and_is_told_where_to_read(
    rule: str, source: str, policy: Callable[[str], ModuleType]
) -> None:
    suite = Suite(policy(source))
    with pytest.raises(AssertionError) as broken:
        getattr(suite, rule)()
    head, *_, tail = str(broken.value).splitlines()
    assert head.startswith(rule.removeprefix("test_").replace("_", " ") + ": ")
    assert tail == f"see {PAGE}#{anchor(rule)}"


def test_every_rule_is_broken_by_some_defect() -> None:
    assert {defect.values[0] for defect in DEFECTS} == set(RULES)
