"""Each rule of EngineTests is broken by a copy of the template with one defect, and that rule says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from llmgw_core.spec import Capability
from llmgw_core.testing.engine import EngineTests
from llmgw_core.testing.rules import PAGE, anchor

from .conftest import Install, defects_of

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "template/llmgw-example/src/llmgw_example"
PACKAGE, NAME = "llmgw_tests_broken", "broken"
TOOLS = """
import itertools, json, pathlib, random, socket, subprocess, time

GOOD = {name: value for name, value in [*globals().items()] if name.startswith("llmgw_")}
COUNTER = itertools.count()

def given(shard, launch):
    return GOOD["llmgw_engine_commands"](shard, launch)

def extended(shard, launch, *items, **fields):
    (command,) = given(shard, launch)
    return (command.model_copy(update={"argv": (*command.argv, *items), **fields}),)

def reworded(shard, launch, change):
    changed = [change(item) for item in given(shard, launch)[0].argv]
    items = [item for one in changed for item in (one if isinstance(one, list) else [one])]
    return extended(shard, launch, argv=tuple(items))

def without(shard, **profile):
    return shard.model_copy(update={"profile": shard.profile.model_copy(update=profile)})

def capable(**capabilities):
    return ENGINE.model_copy(update={"capabilities": {**ENGINE.capabilities, **capabilities}})

def asked(shard, which, **fields):
    probes = spec.openai_probes(shard)
    return probes.model_copy(update={which: getattr(probes, which).model_copy(update=fields)})

def with_status(responses, was, now):
    return {
        name: one.model_copy(update={"status": now}) if one.status == was else one
        for name, one in responses.items()
    }
"""
"""What defects are written with."""
DEFECTS = defects_of(Path(__file__).with_name("defects").joinpath("engine.txt").read_text())
RULES = sorted(name for name in dir(EngineTests) if name.startswith("test_"))


@pytest.fixture
def copied(installed: Install) -> Callable[[str], ModuleType]:
    """Installs a copy of the template whose source ends with something more."""

    def copy(defect: str) -> ModuleType:
        files = {
            str(path.relative_to(TEMPLATE)): path.read_text()
            .replace("llmgw_example", PACKAGE)
            .replace('"example"', f'"{NAME}"')
            for path in (TEMPLATE / "__init__.py", *TEMPLATE.glob("flags/*.json"))
        }
        files["__init__.py"] += TOOLS + defect
        return installed(PACKAGE, files, NAME)

    return copy


class Suite(EngineTests):
    """What a plugin's author would write, made on the spot."""

    first_party = True

    def __init__(self, plugin: ModuleType) -> None:
        self.plugin = plugin
        self.name = NAME


@pytest.mark.parametrize("rule", RULES)
def test_a_copy_without_a_defect_keeps_every_rule(rule: str, copied: Callable[[str], ModuleType]) -> None:
    getattr(Suite(copied("")), rule)()


@pytest.mark.parametrize(("rule", "source"), DEFECTS)
def test_a_defect_breaks_the_rule_that_is_about_it_and_is_told_where_to_read(
    rule: str, source: str, copied: Callable[[str], ModuleType]
) -> None:
    suite = Suite(copied(source))
    with pytest.raises(AssertionError) as broken:
        getattr(suite, rule)()
    head, *_, tail = str(broken.value).splitlines()
    assert head.startswith(rule.removeprefix("test_").replace("_", " ") + ": ")
    assert tail == f"see {PAGE}#{anchor(rule)}"


def test_every_rule_is_broken_by_some_defect() -> None:
    assert {defect.values[0] for defect in DEFECTS} == set(RULES)


OPEN = "ENGINE = capable(**{Capability.RERANK: Support.UNKNOWN})\n"


def test_a_capability_that_somebody_else_leaves_open_is_a_warning(
    copied: Callable[[str], ModuleType],
) -> None:
    suite = Suite(copied(OPEN))
    suite.first_party = False
    with pytest.warns(UserWarning, match="says nothing of rerank, which counts as no"):
        suite.test_every_capability_is_declared()


def test_a_capability_stays_open_with_a_reason_and_not_without(copied: Callable[[str], ModuleType]) -> None:
    suite = Suite(copied(OPEN))
    suite.exempt = {Capability.RERANK: "there is no model to try it with"}
    suite.test_every_capability_is_declared()
    suite.exempt = {Capability.RERANK: " "}
    with pytest.raises(AssertionError, match="exempt for no reason: rerank"):
        suite.test_every_capability_is_declared()


ON_THE_COMMAND_LINE = """
@spec.hookimpl
def llmgw_engine_commands(shard, launch):
    key = [f"--name={launch.key.get_secret_value()}"] if launch.key else []
    return extended(shard, launch, *key, secret_env={})
"""


def test_a_key_is_on_the_command_line_only_of_releases_that_take_it_in_no_other_way(
    copied: Callable[[str], ModuleType],
) -> None:
    suite = Suite(copied(ON_THE_COMMAND_LINE))
    suite.key_on_command_line = "<1.1"
    suite.test_the_key_is_nowhere_to_be_read()
    suite.key_on_command_line = "<1.0"
    with pytest.raises(AssertionError, match="the key can be read"):
        suite.test_the_key_is_nowhere_to_be_read()


def test_a_suite_whose_plugin_takes_nothing_proves_nothing_and_says_so(
    copied: Callable[[str], ModuleType],
) -> None:
    refusing = "OWN = OWN_FLAGS\n@spec.hookimpl\ndef llmgw_engine_commands(shard, launch):\n"
    suite = Suite(copied(refusing + '    raise spec.Unsupported("nodes", "not today")\n'))
    with pytest.raises(AssertionError, match="nothing was tried"):
        suite.test_its_commands_are_well_formed()


def test_two_suites_in_one_run_do_not_disturb_each_other(copied: Callable[[str], ModuleType]) -> None:
    plugin = copied("")

    class Another(Suite):
        """Hypothesis refuses a test that is a method of two classes."""

    Suite(plugin).test_any_profile_is_answered()
    Another(plugin).test_any_profile_is_answered()
