"""`llmgw engine-check`, as a person runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from llmgw_core.engine_check.build import build
from llmgw_core.engine_check.check import check
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import FlagTable

Llmgw = Callable[..., Any]

EXAMPLE_HELP = """\
usage: example-server [-h] --model MODEL

options:
  -h, --help         show this help message and exit
  --model MODEL      the model
  --name NAME        its name
  --host HOST        where to listen (default: 127.0.0.1)
  --port PORT        where to listen (default: 80)
  --context CONTEXT  tokens
"""


@pytest.fixture
def help_file(tmp_path: Path) -> Path:
    file = tmp_path / "help.txt"
    file.write_text(EXAMPLE_HELP)
    return file


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_plugin_whose_flags_are_all_there(llmgw: Llmgw, help_file: Path) -> None:
    done = llmgw("engine-check", "--plugin", "example", "--help-file", help_file)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("example 1.0 · 6 flags in help.txt · tier bronze\n")
    assert "5 flags in 7 commands, all there" in done.stdout
    assert "Example server runs a replica on one node" in done.stdout


def test_a_missing_flag_is_exit_code_1_and_named(llmgw: Llmgw, help_file: Path) -> None:
    help_file.write_text(EXAMPLE_HELP.replace("--context CONTEXT", "--context-length N"))
    done = llmgw("engine-check", "--plugin", "example", "--help-file", help_file)
    assert done.returncode == 1
    assert "missing: --context" in done.stdout
    assert "did you mean --context-length?" in done.stdout


def test_ctl_has_the_same_command(llmgw: Llmgw, help_file: Path) -> None:
    asked = ("engine-check", "--plugin", "example", "--help-file", help_file)
    assert llmgw("ctl", *asked).stdout == llmgw(*asked).stdout


def test_json_is_one_document_with_everything(llmgw: Llmgw, help_file: Path) -> None:
    done = llmgw("engine-check", "--plugin", "example", "--help-file", help_file, "--json")
    document = json.loads(done.stdout)
    assert (document["ok"], document["engine"], document["complete"]) == (True, "example", True)
    assert document["help"] == "help.txt"
    assert {row["flag"]: row["state"] for row in document["flags"]}["--port"] == "ok"
    assert document["refused"][0]["combinations"]


def test_a_cut_help_warns_and_calls_nothing_missing(llmgw: Llmgw, help_file: Path) -> None:
    help_file.write_text(EXAMPLE_HELP[: EXAMPLE_HELP.index("(default: 80)")])
    done = llmgw("engine-check", "--plugin", "example", "--help-file", help_file)
    assert done.returncode == 1
    assert "warning: the help looks cut" in done.stderr
    assert "not found, in a help that looks cut: --context" in done.stdout
    assert "missing" not in done.stdout


def test_a_program_is_asked_for_help_and_version(llmgw: Llmgw, help_file: Path, tmp_path: Path) -> None:
    program = script(
        tmp_path / "example-server",
        f'case "$1" in --help) cat {help_file} ;; *) echo example-server 7.3 ;; esac',
    )
    by_path = llmgw("engine-check", "--plugin", "example", "--binary", program)
    assert by_path.returncode == 0, by_path.stderr
    assert "example 7.3" in by_path.stdout
    found = llmgw("engine-check", "--plugin", "example", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert found.stdout == by_path.stdout


@pytest.mark.parametrize(
    ("body", "said"),
    (
        ("echo no such model >&2; exit 3", "exit code 3: no such model"),
        ("echo hello", "does not say its version"),
    ),
)
def test_a_program_that_gives_no_help_is_exit_code_2(
    llmgw: Llmgw, tmp_path: Path, body: str, said: str
) -> None:
    done = llmgw("engine-check", "--plugin", "example", "--binary", script(tmp_path / "broken", body))
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    (
        (("--plugin", "nobody"), "no engine plugin is called 'nobody'; loaded: "),
        (("--plugin", "nvidia"), "no engine plugin is called 'nvidia'"),
        (("--plugin", "example", "--binary", "a", "--help-file", "b"), "not both"),
        (("--plugin", "example", "--help-file", "/nonexistent"), "No such file"),
        (("--plugin", "example", "--binary", "/nonexistent"), "cannot be run: No such file"),
        (("--plugin", "example"), "example-server is not on PATH"),
        (("--plugin", "example", "--help-file", "b", "--capture", "c"), "needs --engine-version"),
        ((), "Missing option '--plugin'"),
    ),
)
def test_what_cannot_be_checked_is_exit_code_2(llmgw: Llmgw, arguments: tuple[str, ...], said: str) -> None:
    done = llmgw("engine-check", *arguments, PATH="/usr/bin:/bin")
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_a_help_becomes_a_table_unless_it_is_cut(llmgw: Llmgw, help_file: Path, tmp_path: Path) -> None:
    table = tmp_path / "7.3.json"
    asked = ("engine-check", "--plugin", "example", "--help-file", help_file, "--engine-version", "7.3")
    assert llmgw(*asked, "--capture", table).returncode == 0
    read = FlagTable.model_validate_json(table.read_text())
    assert (read.engine, read.version, read.source, len(read.flags)) == ("example", "7.3", "captured help", 6)
    table.unlink()
    help_file.write_text(EXAMPLE_HELP.rstrip("\n"))
    refused = llmgw(*asked, "--capture", table)
    assert refused.returncode == 2
    assert "no table is written" in refused.stderr
    assert not table.exists()


PLUGIN = """\
from llmgw_core.spec import *
@hookimpl
def llmgw_plugin_info():
    return PluginInfo(name="other", kind="engine", api=HOOK_API, summary="another")
@hookimpl
def llmgw_engine_info():
    return EngineInfo(name="other", title="Other", binary=BinarySpec(names=("other",)), paths=("/v1",))
@hookimpl
def llmgw_engine_flags():
    flags = (Flag(names=("--model",), arity="one"), Flag(names=("--old",), arity="none"))
    return (FlagTable(engine="other", version="1.0", source="captured help", flags=flags),)
@hookimpl
def llmgw_engine_commands(shard, launch):
    return (Command(name="engine", argv=(*launch.binary, "--model", shard.source)),)
@hookimpl
def llmgw_engine_probes(shard):
    return None
@hookimpl
def llmgw_engine_ready(shard):
    return Readiness(ready=False)
"""


def test_a_plugin_of_someone_else_is_checked_as_it_was_installed(llmgw_beside: Llmgw, tmp_path: Path) -> None:
    """Only what a wheel puts into an environment: a module, its entry point and its metadata."""
    site = tmp_path / "site"
    info = site / "llmgw_other-0.1.dist-info"
    info.mkdir(parents=True)
    (site / "llmgw_other.py").write_text(PLUGIN)
    (info / "entry_points.txt").write_text("[llmgw]\nother = llmgw_other\n")
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: llmgw-other\nVersion: 0.1\n\n# Other\n\nTier: bronze.\n"
    )
    text = tmp_path / "help.txt"
    text.write_text("options:\n  --help         show this\n  --model MODEL  what\n  --new          more\n")
    done = llmgw_beside(site, "engine-check", "--plugin", "other", "--help-file", text, "--diff")
    assert done.returncode == 0, done.stderr
    assert "other 1.0 · 3 flags in help.txt · tier bronze" in done.stdout
    assert [line.split() for line in done.stdout.splitlines() if line.startswith(("  gone", "  added"))] == [
        ["gone", "--old"],
        ["added", "--help"],
        ["added", "--new"],
    ]


# --- our own plugins against what the real engines print ---------------------------------------------

RECORDED = Path(__file__).resolve().parents[4] / "shared/engines"
REAL = (
    ("llamacpp", "llama.cpp/help-10991.txt", "10991"),
    ("llamacpp", "llama.cpp/help-11434.txt", "11434"),
    ("vllm", "vllm/help-0.32.0.txt", "0.32.0"),
    ("vllm", "ray/help-start-2.60.0.txt", "2.60.0"),
    ("sglang", "sglang/help-0.5.23.txt", "0.5.23"),
)


@pytest.mark.parametrize(("plugin", "name", "version"), REAL)
def test_our_plugins_emit_what_the_real_engines_take(
    llmgw: Llmgw, plugin: str, name: str, version: str
) -> None:
    if not (RECORDED / name).is_file():
        pytest.skip("the recorded help texts lie beside the repository, and are not here")
    asked = ("engine-check", "--plugin", plugin, "--help-file", RECORDED / name, "--engine-version", version)
    done = llmgw(*asked, "--json")
    document = json.loads(done.stdout)
    assert [row for row in document["flags"] if row["state"] != "ok"] == []
    assert (document["ok"], document["complete"]) == (True, True)
    assert (document["changes"] == []) is (document["compared_with"] == version)
    assert done.returncode == 0


def test_the_embedded_launcher_takes_what_its_plugin_emits(llmgw: Llmgw) -> None:
    pytest.importorskip("xllamacpp")
    done = llmgw("engine-check", "--plugin", "llamacpp", "--json", PATH="/nonexistent")
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"]) == (0, True), done.stderr
    assert "llmgw_llamacpp.launcher --help" in document["help"]


def test_tables_are_part_of_the_plugins_packages() -> None:
    for package in ("llmgw_vllm", "llmgw_sglang", "llmgw_llamacpp"):
        assert any(file.name.endswith(".json") for file in files(package).joinpath("flags").iterdir())


@pytest.mark.parametrize("plugin", ("llamacpp", "sglang", "vllm"))
def test_the_widest_commands_of_every_known_release_are_in_its_table(plugin: str) -> None:
    host = PluginHost.load()
    info, tables = host.engines[plugin], host.call_one(plugin, "llmgw_engine_flags")
    ask = partial(host.call_one, plugin, "llmgw_engine_commands")
    for table in tables:
        if not table.program:
            built = build(
                info,
                lambda shard, launch: ask(shard=shard, launch=launch),
                binary=info.binary.names[:1] or (plugin,),
                version=table.version,
            )
            assert built.made, table.version
            rows = check(info, built, table, tables).flags
            assert [row for row in rows if row.state != "ok"] == [], table.version
