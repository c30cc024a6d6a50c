"""Everything that `llmgw up` can refuse is refused before anything starts, with exit code 2."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from llmgw_core.cli.main import llmgw
from llmgw_core.cli.up.checks import admin_address, model_file, need_agent, need_engine, need_port
from llmgw_core.cli.up.first_run import ROLES, prepare, read_secret
from llmgw_core.cli.up.layout import StateLayout
from llmgw_core.cli.up.plan import UpPlan, child_specs, write_configs
from llmgw_core.config import AgentConfig, GatewayConfig, ServerConfig, split_address
from llmgw_core.config_file import load
from llmgw_core.daemon import StateLock, bind
from llmgw_core.spec import ConfigError, PortInUse

NOBODY: frozenset[int] = frozenset()
CATALOG = "version: 1\nmodels:\n  a:\n    source: /x\n    profiles: [{name: p, engine: nope, cpus: 1}]\n"


def plan(root: Path, *, admin: str = "127.0.0.1:2", gateway: str = "127.0.0.1:1", text: str = "") -> UpPlan:
    layout = StateLayout(root)
    prepare(layout)
    return UpPlan(layout, layout.catalog, text, admin, gateway)


def nothing_started(state: Path) -> bool:
    return not (state / "children.json").exists() and not (state / "logs").exists()


def test_a_broken_catalog_is_refused_with_line_and_column(run: Any, tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.yaml"
    catalog.write_text("version: 1\nmodels:\n  a: [unclosed\n")
    done = run("up", "--catalog", str(catalog), "--state-dir", str(tmp_path / "state"))
    assert done.returncode == 2
    assert f"{catalog}:4:1" in done.stderr
    assert "bracket opened in line 3, column 6" in done.stderr
    assert nothing_started(tmp_path / "state")


def test_an_unknown_engine_is_refused_at_its_line(run: Any, tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.yaml"
    catalog.write_text(CATALOG)
    done = run("up", "--catalog", str(catalog), "--state-dir", str(tmp_path / "state"))
    assert done.returncode == 2
    assert f"{catalog}:5:" in done.stderr
    assert nothing_started(tmp_path / "state")


def test_a_missing_model_file_is_refused(run: Any, tmp_path: Path) -> None:
    done = run("up", "--model", str(tmp_path / "none.gguf"), "--state-dir", str(tmp_path / "state"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path}/none.gguf: no such model file" in done.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("state", ("file/state", "/proc/llmgw"))
def test_a_state_directory_that_cannot_be_made_is_refused(run: Any, tmp_path: Path, state: str) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    done = run("up", "--model", str(tmp_path / "model.gguf"), "--state-dir", str(tmp_path / state))
    assert done.returncode == 2
    assert f"{tmp_path / state}: cannot be made" in done.stderr


def test_a_second_up_says_who_holds_the_directory(run: Any, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    layout = StateLayout(tmp_path / "state")
    with StateLock.take(layout.lock, "llmgw up") as lock:
        lock.note("since 2026-11-03 10:00:00, serving http://127.0.0.1:8080/v1")
        done = run("up", "--model", str(tmp_path / "model.gguf"), "--state-dir", str(layout.root))
    assert done.returncode == 2
    assert f"in use by llmgw up (pid {os.getpid()}), since 2026-11-03 10:00:00, serving http" in done.stderr
    assert nothing_started(layout.root)


@pytest.mark.parametrize(
    ("arguments", "told"),
    (
        ([], "give --model FILE.gguf or --catalog FILE"),
        (["--model", "a", "--catalog", "b"], "exclude each other"),
        (["--model", "a", "--port", "0"], "--port"),
        (["--model", "a", "--host", ""], "--host"),
        (["--model", "a", "--host", "[::1"], "--host"),
        (["--model", "a", "--host", "http://x"], "--host"),
    ),
)
def test_wrong_usage_is_refused(run: Any, tmp_path: Path, arguments: list[str], told: str) -> None:
    done = run("up", *arguments, "--state-dir", str(tmp_path / "state"))
    assert done.returncode == 2
    assert told in done.stderr


def test_ctrl_c_before_anything_runs_says_that_nothing_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("llmgw_core.cli.up.launch.need_agent", interrupted)
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    arguments = ["up", "--model", str(tmp_path / "model.gguf"), "--state-dir", str(tmp_path / "state")]
    result = CliRunner().invoke(llmgw, arguments)
    assert (result.exit_code, result.stderr.strip()) == (130, "nothing was started")


def test_print_catalog_shows_it_and_starts_nothing(run: Any, tmp_path: Path) -> None:
    model = tmp_path / "Tiny.Q4_1.gguf"
    model.write_bytes(b"GGUF")
    done = run("up", "--model", str(model), "--print-catalog", "--state-dir", str(tmp_path / "state"))
    assert done.returncode == 0
    assert str(model) in done.stdout
    assert not (tmp_path / "state").exists()


def test_a_directory_is_no_model_file_and_a_home_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="is a directory"):
        model_file(tmp_path)
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert model_file(Path("~/m.gguf")) == tmp_path / "m.gguf"


def test_what_is_not_installed_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmgw_core.cli.up.checks.installed_commands", dict)
    with pytest.raises(ConfigError, match="pip install llmgw-agent"):
        need_agent()
    with pytest.raises(ConfigError, match=r"pip install \"llmgw-llamacpp\[embedded\]\""):
        need_engine(set(), "llamacpp")
    with pytest.raises(ConfigError, match="no engine plugin is installed"):
        need_engine(set(), None)
    need_engine({"llamacpp"}, "llamacpp")
    need_engine({"vllm"}, None)


def test_a_port_of_our_own_child_counts_as_free() -> None:
    with bind("127.0.0.1:0") as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(PortInUse, match=f"pid {os.getpid()}"):
            need_port(address, NOBODY)
        need_port(address, frozenset({os.getpid()}))


@pytest.mark.parametrize("host", ("192.0.2.1", "no-such-host.invalid", "[2001:db8::1]"))
def test_a_host_that_this_machine_is_not_is_told_by_its_own_option(host: str) -> None:
    with pytest.raises(ConfigError, match="--host") as refused:
        need_port(f"{host}:8080", NOBODY)
    assert "--port" not in str(refused.value)


def test_the_admin_port_is_the_next_free_one_and_is_kept(tmp_path: Path) -> None:
    layout = StateLayout(tmp_path)
    with bind("127.0.0.1:0") as taken:
        port: int = taken.getsockname()[1]
        first = admin_address(layout, port - 1, NOBODY)
        assert split_address(first)[1] > port
    write_configs(plan(tmp_path, admin=first))
    assert admin_address(layout, port - 1, NOBODY) == first
    assert admin_address(layout, split_address(first)[1], NOBODY) != first
    with socket.create_server(split_address(first)):
        assert admin_address(layout, port - 1, NOBODY) != first


def test_the_first_run_makes_private_tokens_and_a_key_and_the_second_keeps_them(tmp_path: Path) -> None:
    layout = StateLayout(tmp_path / "state")
    prepare(layout)
    made = {role: read_secret(layout, role) for role in (*ROLES, "api_key")}
    assert len(set(made.values())) == 4
    assert made["api_key"].startswith("llmgw-")
    assert len(made["api_key"]) == len("llmgw-") + 32
    for path in (layout.api_key, *(layout.token(role) for role in ROLES)):
        assert path.stat().st_mode & 0o777 == 0o600
    for directory in layout.directories():
        assert directory.stat().st_mode & 0o777 == 0o700
    prepare(layout)
    assert {role: read_secret(layout, role) for role in made} == made


def test_the_daemons_can_read_what_up_writes_for_them(tmp_path: Path) -> None:
    made = plan(tmp_path)
    write_configs(made)
    for name, model in (("server", ServerConfig), ("gateway", GatewayConfig), ("agent", AgentConfig)):
        assert load(model, made.layout.config(name), {}) == made.configs()[name]


def fingerprints(made: UpPlan, **environment: str) -> dict[str, str]:
    return {spec.name: spec.fingerprint for spec in child_specs(made, environment)}


def test_a_child_is_outdated_by_what_it_reads_at_its_start_and_by_nothing_else(tmp_path: Path) -> None:
    before = fingerprints(plan(tmp_path))
    assert fingerprints(plan(tmp_path), PATH="/elsewhere") == before

    def outdated(after: dict[str, str]) -> set[str]:
        return {name for name in before if before[name] != after[name]}

    assert outdated(fingerprints(plan(tmp_path, text="version: 1"))) == {"server"}
    assert outdated(fingerprints(plan(tmp_path, gateway="127.0.0.1:9"))) == {"gateway"}
    assert outdated(fingerprints(plan(tmp_path, admin="127.0.0.1:9"))) == {"server", "gateway", "agent"}
    assert outdated(fingerprints(plan(tmp_path), LLMGW_AGENT__ENGINES__LLAMACPP="/x")) == {"agent"}


@pytest.mark.parametrize(
    ("listen", "url"),
    (
        ("127.0.0.1:1", "http://127.0.0.1:1"),
        ("0.0.0.0:1", "http://127.0.0.1:1"),
        ("[::]:1", "http://[::1]:1"),
        ("10.1.2.3:1", "http://10.1.2.3:1"),
    ),
)
def test_the_url_is_one_that_this_machine_can_reach(tmp_path: Path, listen: str, url: str) -> None:
    assert plan(tmp_path, gateway=listen).gateway_url == url
