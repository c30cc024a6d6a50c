"""What the scheduler sees of a node, on machines that are fine and on machines that are not."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from llmgw_agent.address import resolved
from llmgw_agent.cli import agent
from llmgw_agent.discovery import discover, find_engine
from llmgw_agent.host import LinuxHost
from llmgw_core.config import AgentConfig
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import (
    HOOK_API,
    BinarySpec,
    CommandResult,
    ConfigError,
    EngineInfo,
    Gpu,
    HostView,
    NodeReport,
    PluginInfo,
    hookimpl,
)

INFO = EngineInfo(
    name="x",
    title="X",
    binary=BinarySpec(names=("x-server",), fallback=("{python}", "-m", "x"), install_hint="pip install x"),
    paths=("/v1",),
)
OK = CommandResult(code=0, stdout="x version: 12.3 (abc)")


@dataclass
class Host:
    """A machine made of answers; what is not listed is not there."""

    commands: Mapping[tuple[str, ...], CommandResult] = field(default_factory=dict)
    directories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    def read_text(self, path: str) -> str | None:
        return self.files.get(path)

    def list_dir(self, path: str) -> tuple[str, ...] | None:
        return self.directories.get(path)

    def run(self, argv: tuple[str, ...], timeout: float) -> CommandResult | None:
        return self.commands.get(argv)


@pytest.fixture
def config(tmp_path: Path) -> AgentConfig:
    return AgentConfig(
        node="n1",
        address="10.0.0.1",
        control_planes=("http://10.0.0.9:8081",),
        token_file=tmp_path / "token",
        state_dir=tmp_path,
    )


EMBEDDED = (sys.executable, "-m", "x")
ON_PATH = ("/opt/bin/x-server",)


def test_the_configured_binary_comes_first() -> None:
    host = Host({("/my/x", "--version"): OK}, {"/opt/bin": ("x-server",)})
    found = find_engine(INFO, "/my/x", host, {"PATH": "/opt/bin"})
    assert (found.binary, found.version, found.usable) == (("/my/x",), "12.3", True)


def test_a_configured_prefix_keeps_its_arguments() -> None:
    host = Host({("nice", "x", "--version"): OK})
    assert find_engine(INFO, ("nice", "x"), host, {}).binary == ("nice", "x")


def test_the_binary_on_path_comes_before_the_fallback() -> None:
    host = Host({(*ON_PATH, "--version"): OK}, {"/bin": ("ls",), "/opt/bin": ("x-server",)})
    assert find_engine(INFO, None, host, {"PATH": "/bin::/opt/bin/"}).binary == ON_PATH


def test_the_fallback_runs_with_the_agents_own_interpreter() -> None:
    host = Host({(*EMBEDDED, "--version"): OK})
    assert find_engine(INFO, None, host, {"PATH": "/bin"}).binary == EMBEDDED


def test_a_binary_on_path_that_crashes_is_a_problem_and_not_replaced() -> None:
    crash = CommandResult(code=127, stderr="first\nlibfoo.so: cannot open shared object file\n")
    host = Host({(*ON_PATH, "--version"): crash, (*EMBEDDED, "--version"): OK}, {"/opt/bin": ("x-server",)})
    found = find_engine(INFO, None, host, {"PATH": "/opt/bin"})
    assert not found.usable
    assert found.problems == (
        "/opt/bin/x-server (on PATH) does not run: libfoo.so: cannot open shared object file. pip install x",
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    (
        (None, "cannot be started"),
        (CommandResult(code=-9, timed_out=True), "told no version within 30 s"),
        (CommandResult(code=1), "exit code 1 without a word"),
        (CommandResult(code=0, stdout="hello"), "told no version: hello"),
    ),
)
def test_an_engine_that_tells_no_version_is_a_problem_in_words(
    answer: CommandResult | None, words: str
) -> None:
    commands: dict[tuple[str, ...], CommandResult] = {}
    if answer is not None:
        commands["/my/x", "--version"] = answer
    (problem,) = find_engine(INFO, "/my/x", Host(commands), {}).problems
    assert words in problem
    assert problem.endswith("pip install x")


def test_an_engine_that_is_nowhere_is_a_problem_with_the_way_to_get_it() -> None:
    info = INFO.model_copy(update={"binary": INFO.binary.model_copy(update={"fallback": ()})})
    (problem,) = find_engine(info, None, Host(), {"PATH": "/bin"}).problems
    assert problem == "x-server is neither in the agent's config nor on PATH. pip install x"


def test_cpus_are_those_that_this_process_may_use(config: AgentConfig) -> None:
    host = Host(
        files={
            "/proc/self/status": "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8,10-11\n",
            "/proc/meminfo": "MemTotal:       16384000 kB\nMemFree: 1 kB\n",
        }
    )
    report = discover(config, PluginHost.of(), host, {})
    assert (report.cpus, report.memory_mib) == (7, 16000)


def test_a_machine_that_tells_nothing_still_has_a_cpu(config: AgentConfig) -> None:
    report = discover(config, PluginHost.of(), Host(), {})
    assert (report.cpus, report.memory_mib, report.gpus) == (1, 0, ())


class Broken:
    @hookimpl
    def llmgw_plugin_info(self) -> PluginInfo:
        return PluginInfo(name="broken", kind="accelerator", api=HOOK_API, summary="raises")

    @hookimpl
    def llmgw_accelerator_discover(self, host: HostView) -> tuple[Gpu, ...]:
        raise RuntimeError("the card fell off the bus")


class Working:
    @hookimpl
    def llmgw_plugin_info(self) -> PluginInfo:
        return PluginInfo(name="working", kind="accelerator", api=HOOK_API, summary="one GPU")

    @hookimpl
    def llmgw_accelerator_discover(self, host: HostView) -> tuple[Gpu, ...]:
        return (Gpu(index=0, uuid="GPU-1"),)


def test_a_plugin_that_raises_is_a_problem_of_the_node_and_hides_no_other(config: AgentConfig) -> None:
    report = discover(config, PluginHost.of(Broken(), Working()), Host(), {})
    assert [gpu.uuid for gpu in report.gpus] == ["GPU-1"]
    (problem,) = report.problems
    assert "broken" in problem
    assert "fell off the bus" in problem
    assert set(report.plugins) == {"broken", "working"}


def test_a_node_without_address_takes_the_one_that_routes_to_its_control_plane(config: AgentConfig) -> None:
    unset = {"address": None, "node": None, "control_planes": ("http://127.0.0.1:8081",)}
    found = resolved(config.model_copy(update=unset))
    assert found.address == "127.0.0.1"
    assert found.node


def test_a_control_plane_that_no_address_reaches_is_said_with_the_setting(config: AgentConfig) -> None:
    unset = {"address": None, "control_planes": ("http://no-such-host.invalid:1",)}
    with pytest.raises(ConfigError, match="set address in agent"):
        resolved(config.model_copy(update=unset))


def test_inventory_prints_the_report_of_the_machine_that_it_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMGW_PLUGINS", "nvidia")
    config = tmp_path / "agent.yaml"
    config.write_text(
        "node: n7\ncontrol_planes: ['http://127.0.0.1:1']\ntoken_file: token\nstate_dir: state\n"
    )
    result = CliRunner().invoke(agent, ["inventory", "--config", str(config), "--json"])
    assert result.exit_code == 0, result.output
    report = NodeReport.model_validate_json(result.stdout)
    assert (report.node, report.address) == ("n7", "127.0.0.1")
    assert report.memory_mib > 0
    words = CliRunner().invoke(agent, ["inventory", "--config", str(config)])
    assert words.output.startswith(f"n7  127.0.0.1  {report.cpus} CPUs")


def test_inventory_works_without_a_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMGW_PLUGINS", "")
    result = CliRunner().invoke(agent, ["inventory", "--json"])
    assert NodeReport.model_validate_json(result.stdout).cpus >= 1


def test_the_real_host_answers_none_for_what_is_not_there(tmp_path: Path) -> None:
    host: Any = LinuxHost()
    assert host.read_text(str(tmp_path / "no")) is None
    assert host.list_dir(str(tmp_path / "no")) is None
    assert host.run((str(tmp_path / "no"),), 1.0) is None


def test_the_real_host_reads_no_file_without_end(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (1024 * 1024 + 1))
    (tmp_path / "small").write_bytes(b"\xffok")
    assert LinuxHost().read_text(str(tmp_path / "large")) is None
    assert LinuxHost().read_text(str(tmp_path / "small")) == "\N{REPLACEMENT CHARACTER}ok"
    assert LinuxHost().list_dir(str(tmp_path)) == ("large", "small")
