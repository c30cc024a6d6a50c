"""What write-a-plugin.md promises: how small a plugin is, and a section for every rule that leads there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from llmgw_core.testing.engine import EngineTests
from llmgw_core.testing.fabric import FabricTests
from llmgw_core.testing.rules import PAGE, PluginTests, anchor
from llmgw_core.testing.scoring import ScoringTests

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / PAGE).read_text()
TEMPLATE = ROOT / "template" / "llmgw-example"
MOST_LINES = {"plugin": 80, "test": 10}
SHOWN = dict(re.findall(r"^```python\n# (\S+)\n(.*?)^```$", TEXT, re.M | re.S))
SOURCES = {
    "the template's plugin": ("plugin", (TEMPLATE / "src/llmgw_example/__init__.py").read_text()),
    "the template's test": ("test", (TEMPLATE / "tests/test_conformance.py").read_text()),
    "the page's plugin": ("plugin", SHOWN["llama-cpp-python/src/llmgw_llama_cpp_python/__init__.py"]),
    "the page's test": ("test", SHOWN["llama-cpp-python/tests/test_conformance.py"]),
}


def rules_of(suite: type[PluginTests]) -> set[str]:
    return {name for name in dir(suite) if name.startswith("test_")}


@pytest.mark.parametrize("what", SOURCES)
def test_a_whole_engine_plugin_is_as_small_as_promised(what: str) -> None:
    kind, source = SOURCES[what]
    assert len(source.splitlines()) <= MOST_LINES[kind]
    assert max(map(len, source.splitlines())) <= 110
    assert ast.parse(source).body


def test_every_rule_that_sends_people_to_the_page_has_its_section() -> None:
    headings = {heading.lower().replace(" ", "-") for heading in re.findall(r"^#### (.+)$", TEXT, re.M)}
    sent = rules_of(EngineTests) | rules_of(ScoringTests) | rules_of(PluginTests)
    assert headings == {anchor(name) for name in sent}
    assert rules_of(PluginTests) <= rules_of(FabricTests)


def test_everything_that_a_suite_may_say_is_on_the_page() -> None:
    own = {
        name
        for suite in EngineTests.__mro__[:-1]
        for name in vars(suite)
        if not name.startswith(("_", "test_"))
    }
    rows = re.findall(r"^\| `(\w+)", TEXT.partition("What a suite may say")[2], re.M)
    assert {*rows, "kind"} == own
