"""`llmgw catalog check`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result
from llmgw_core.cli.main import llmgw
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import Command, EngineInfo, Unsupported

GOOD = "version: 1\nmodels:\n  m: {source: /m, profiles: [{engine: llamacpp}]}\n"
BAD = "version: 1\nmodels:\n  m: {source: /m, profiles: [{engine: llamacpp, cpus: 0, nods: 1}]}\n"
CPUS, NODS = BAD.splitlines()[2].index("0") + 1, BAD.splitlines()[2].index("nods") + 1


@pytest.fixture(autouse=True)
def _plugins(engines: Mapping[str, EngineInfo], monkeypatch: pytest.MonkeyPatch) -> None:
    def call_one(engine: str, hook: str, **arguments: object) -> tuple[Command, ...]:
        assert hook == "llmgw_engine_commands"
        assert set(arguments) == {"shard", "launch"}
        if engine == "cpuonly":
            raise Unsupported("source", "it serves nothing")
        return (Command(name="engine", argv=(engine,)),)

    host = SimpleNamespace(engines=engines, call_one=call_one)
    monkeypatch.setattr(PluginHost, "load", lambda: host)


def check(path: Path, *options: str) -> Result:
    """Run the command as the program would."""
    return CliRunner().invoke(llmgw, ["catalog", "check", str(path), *options])


def test_a_good_catalog_exits_0_and_says_how_many_models(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(GOOD)
    result = check(file)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "1 model, no error\n", "")


def test_every_error_is_shown_with_its_place_and_exits_1(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(BAD)
    result = check(file)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"{file}:3:{CPUS}: error: models.m.profiles[0].cpus: " in result.stderr
    assert f"{file}:3:{NODS}: error: models.m.profiles[0].nods: " in result.stderr
    assert "→ did you mean 'nodes'?" in result.stderr
    assert "2 errors" in result.stderr


def test_warnings_are_shown_and_exit_0(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "version: 1\nmodels:\n"
        "  a: {source: /m, fallbacks: [b], profiles: [{engine: llamacpp, max_model_len: 9}]}\n"
        "  b: {source: /m, profiles: [{engine: llamacpp, max_model_len: 8}]}\n"
    )
    result = check(file)
    assert result.exit_code == 0
    assert f"{file}:3:31: warning: models.a.fallbacks[0]: " in result.stderr
    assert result.stdout == "2 models, no error, 1 warning\n"


def test_what_the_engines_plugin_refuses_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(GOOD.replace("llamacpp", "cpuonly"))
    result = check(file)
    assert result.exit_code == 1
    assert f"{file}:3:15: error: models.m.source: it serves nothing" in result.stderr


def test_json_is_one_document(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(GOOD)
    good = check(file, "--json")
    file.write_text(BAD)
    bad = check(file, "--json")
    assert (good.exit_code, bad.exit_code) == (0, 1)
    assert json.loads(good.stdout) == {"ok": True, "models": ["m"], "problems": []}
    problems = json.loads(bad.stdout)["problems"]
    assert [(p["line"], p["column"], p["severity"]) for p in problems] == [
        (3, CPUS, "error"),
        (3, NODS, "error"),
    ]


@pytest.mark.parametrize("name", ("missing.yaml", "."))
def test_a_file_that_cannot_be_read_exits_2(name: str, tmp_path: Path) -> None:
    result = check(tmp_path / name)
    assert result.exit_code == 2
    assert "the catalog cannot be read" in result.stderr
