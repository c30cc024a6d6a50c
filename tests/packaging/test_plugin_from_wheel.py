"""Somebody else's plugin, the one of docs/write-a-plugin.md, is proven where nothing but wheels is."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from llmgw_core.spec import document_json, parse_help

from .conftest import closure, lend, succeed

if TYPE_CHECKING:
    from .conftest import Built, Environment

# Builds and installs for real, beside whatever else the machine does.
pytestmark = [pytest.mark.xdist_group("packaging"), pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
HELP = ROOT / "tests/docs/recorded/llama_cpp.server-0.3.36.txt"
NAME = "llama-cpp-python"
FILE = re.compile(r"^```\w+\n# (llama-cpp-python/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files that the page shows, and the table that it has captured."""
    for name, text in FILE.findall((ROOT / "docs/write-a-plugin.md").read_text()):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    table = parse_help(
        HELP.read_text(), engine=NAME, version="0.3.36", captured_from="llama_cpp.server --help"
    )
    flags = tmp_path / NAME / "src/llmgw_llama_cpp_python/flags"
    flags.mkdir()
    (flags / "0.3.36.json").write_text(document_json(table))
    return tmp_path / NAME


@pytest.fixture
def environment(project: Path, dist: Callable[[str], Built], empty_environment: Environment) -> Environment:
    """llmgw-core with its extra for testing, and the plugin, both from their wheels."""
    core = dist("llmgw-core")
    succeed(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist", cwd=project)
    (wheel,) = (project / "dist").glob("*.whl")
    empty_environment.install(core, type(core)(wheel, wheel))
    testing = [need for need in core.requirements() if need.marker and "testing" in str(need.marker)]
    assert testing, "llmgw-core has no extra for testing"
    for need in testing:
        need.marker = None
    lend(empty_environment.site_packages, closure(testing))
    return empty_environment


def test_engine_check_finds_it_and_its_flags(environment: Environment) -> None:
    done = environment.program("llmgw", "engine-check", "--plugin", NAME, "--help-file", str(HELP), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert (document["ok"], document["engine"], document["version"]) == (True, NAME, "0.3.36")
    assert {row["flag"] for row in document["flags"]} >= {"--model", "--model_alias", "--host", "--port"}


def test_engine_check_finds_a_flag_that_is_gone(environment: Environment, tmp_path: Path) -> None:
    changed = tmp_path / "help.txt"
    changed.write_text(HELP.read_text().replace("--model_alias", "--model_name"))
    done = environment.program("llmgw", "engine-check", "--plugin", NAME, "--help-file", str(changed))
    assert done.returncode == 1, done.stderr
    assert "missing: --model_alias" in done.stdout


def test_it_keeps_every_rule_where_nothing_but_wheels_is(environment: Environment, project: Path) -> None:
    tests = environment.home / "tests"
    tests.mkdir()
    (tests / "test_conformance.py").write_text((project / "tests/test_conformance.py").read_text())
    done = environment.python(f"import pytest; raise SystemExit(pytest.main(['-q', {str(tests)!r}]))")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "failed" not in done.stdout
