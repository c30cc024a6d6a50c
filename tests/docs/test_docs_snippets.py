"""Every snippet of README.md and docs/ is run or checked as it is written; one that no rule covers fails.

A page is read from its top, on a machine of its own, as a person would. What cannot be run here is checked
instead, by the few rules of `CHECKED`, each with its reason.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from llmgw_core.catalog.load import load_catalog
from llmgw_core.config import AgentConfig, GatewayConfig, ServerConfig
from llmgw_core.config_file import load
from llmgw_core.plugins import PluginHost
from llmgw_core.reconcile.state import ReplicaState
from llmgw_core.spec import ConfigError

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"^# (\S+\.(?:yaml|toml|py))\n")
SIGNATURE = re.compile(r"def llmgw_\w+\(.*\) -> .+\n")
CONFIGS: Mapping[str, type[ServerConfig | GatewayConfig | AgentConfig]] = {
    "server.yaml": ServerConfig,
    "gateway.yaml": GatewayConfig,
    "agent.yaml": AgentConfig,
}

WRONG_CATALOG = """\
version: 1
models:
  large:
    source: /models/large
    profiles: [{engine: llamacpp, cpus: 1}]
  small: {source: /models/small,
    fallbacks: [larg],
    profiles: [
      {engine: vllm, gpu_class: h100-80g,
       nodes: 1, gpus_per_node: 4}]}
"""
GIVEN: Mapping[str, Mapping[str, str]] = {"catalog.md": {"catalog.yaml": WRONG_CATALOG}}
"""Files that a page speaks of without showing them."""
RECORDED_ENGINE = f"""\
#!/bin/sh
case "$*" in
    *--help) cat {Path(__file__).with_name("recorded")}/llama_cpp.server-0.3.36.txt ;;
    *__version__*) echo 0.3.36 ;;
    *) exit 2 ;;
esac
"""
PROGRAMS: Mapping[str, Mapping[str, str]] = {
    "write-a-plugin.md": {"/srv/llama/bin/python": RECORDED_ENGINE},
}
"""Programs that a page takes for granted, as they answered when they were asked."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `line` is where its fence is."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in FENCE.finditer(text)
    ]


def test_every_fence_is_seen_as_a_block() -> None:
    for page in PAGES:
        fences = len(re.findall(r"^\s*(```|~~~)", page.read_text(), re.MULTILINE))
        assert fences == 2 * len(blocks_of(page)), page


# --- what is checked instead of run ------------------------------------------------------------------


def pip_install(machine: Any, line: str, distributions: Mapping[str, frozenset[str]]) -> None:
    """Needs an index that has the packages. They must be ours, or what the tests themselves use."""
    words = shlex.split(line)
    assert words[:2] == ["pip", "install"]
    if words[2] == "-e":
        machine.install(words[3])
        return
    for word in words[2:]:
        found = re.fullmatch(r"([a-z-]+)(?:\[([a-z]+)\])?", word)
        assert found, word
        name, extra = found.groups()
        if name == "openai":
            continue
        assert name in distributions, f"{name} is not a package of ours"
        assert extra is None or extra in distributions[name], f"{name} has no extra {extra}"


def pip_wheel(machine: Any, line: str, distributions: Mapping[str, frozenset[str]]) -> None:
    """Needs pip and an index that has hatchling. The build itself is done."""
    options = argparse.ArgumentParser(exit_on_error=False)
    options.add_argument("--no-deps", action="store_true")
    options.add_argument("-w")
    options.add_argument("source")
    given = options.parse_args(shlex.split(line)[2:])
    built = machine.run(f"cd {given.source} && python3 -m hatchling build -t wheel -d ../{given.w}; cd ..")
    assert built.returncode == 0, built.stdout + built.stderr
    assert list((machine.root / given.w).glob("*.whl"))


def script(machine: Any, line: str, distributions: Mapping[str, frozenset[str]]) -> None:
    """Would set up a second environment, or run this very test. It must be there, and be a shell script."""
    path = ROOT / shlex.split(line, comments=True)[0]
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(path)], check=True)


def systemctl(machine: Any, line: str, distributions: Mapping[str, frozenset[str]]) -> None:
    """Needs systemd as the first process. The units' own commands are run instead."""
    words = [word for word in shlex.split(line, comments=True)[1:] if word != "--now"]
    assert words[0] in {"enable", "reload", "restart"}
    machine.systemctl(words[0], words[1:])


Check = Callable[[Any, str, Mapping[str, frozenset[str]]], None]
CHECKED: Mapping[str, Check] = {
    "pip install ": pip_install,
    "pip wheel ": pip_wheel,
    "scripts/": script,
    "systemctl ": systemctl,
}
"""By the beginning of a line; a block has only such lines, or none."""


# --- rules ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """Somebody who does what a page says."""

    machine: Any
    until: Callable[..., Any]
    distributions: Mapping[str, frozenset[str]]

    def read(self, block: Block) -> None:
        """Raises AssertionError when the block does not do what the page says, or no rule covers it."""
        rules: Mapping[str, Callable[[Block], None]] = {
            "bash": self._bash,
            "console": self._console,
            "python": self._python,
            "yaml": self._yaml,
            "toml": self._toml,
            "mermaid": self._mermaid,
            "": self._plain,
        }
        assert block.language in rules, f"{block}: no rule for {block.language!r}"
        rules[block.language](block)

    def _bash(self, block: Block) -> None:
        done = self._command(block, block.text)
        assert done is None or done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"

    def _command(self, block: Block, text: str) -> subprocess.CompletedProcess[str] | None:
        check = next((rule for begin, rule in CHECKED.items() if text.startswith(begin)), None)
        if check is not None:
            for line in text.splitlines():
                assert line.startswith(tuple(CHECKED)), f"{block}: {line!r} beside what is only checked"
                check(self.machine, line, self.distributions)
            return None
        if text.startswith("llmgw up ") and "--print-catalog" not in text:
            assert len(text.splitlines()) == 1, f"{block}: more than one command"
            self.machine.up(text)
            return None
        if ":8080" in text or "llmgw ctl" in text:
            self.machine.serve()
        done: subprocess.CompletedProcess[str] = self.machine.run(text)
        return done

    def _console(self, block: Block) -> None:
        for command, shown in _commands(block.text):
            if command.startswith("llmgw up "):
                _compare(block, shown, self.machine.up(command))
                continue
            self._compare_output(block, command, shown)

    def _compare_output(self, block: Block, command: str, shown: list[str]) -> None:
        expected = 1 if any(" error: " in line for line in shown) else 0
        complaint = ""

        def agrees() -> bool:
            # Rows of usage, for instance, take a moment until they are in the store.
            nonlocal complaint
            done = self._command(block, command)
            assert done is not None, f"{block}: {command} has output that nothing compares"
            assert done.returncode == expected, f"{block}: {command}\n{done.stdout}{done.stderr}"
            complaint = _difference(shown, done.stdout + done.stderr)
            return not complaint

        if command.startswith("llmgw ctl") and "create" not in command:
            self.until(agrees, lambda: f"{block}: {complaint}")
        else:
            assert agrees(), f"{block}: {complaint}"

    def _python(self, block: Block) -> None:
        if SIGNATURE.fullmatch(block.text):
            assert block.page.name == "plugins.md", "tests/contract holds these to the hooks there"
            return
        if named := NAMED.match(block.text):  # a file of a project, whose tests the page runs
            self.machine.write(named[1], block.text.removeprefix(named[0]))
            compile(block.text, named[1], "exec")
            return
        if ":8080" in block.text:
            self.machine.serve()
        path = self.machine.write("snippet.py", block.text)
        done = self.machine.run(f"python3 {path.name}")
        assert done.returncode == 0, f"{block}: {done.stderr}"

    def _yaml(self, block: Block) -> None:
        content = yaml.safe_load(block.text)
        named = NAMED.match(block.text)
        path = self.machine.write(named[1] if named else "snippet.yaml", block.text)
        if "models" in content:
            load_catalog(path.read_text(), file=str(block), engines=PluginHost.load().engines)
            return
        assert path.name in CONFIGS, f"{block}: neither a catalog nor a configuration file by its first line"
        load(CONFIGS[path.name], path, {})

    def _toml(self, block: Block) -> None:
        project = tomllib.loads(block.text)["project"]
        assert project["entry-points"]["llmgw"]
        if named := NAMED.match(block.text):
            self.machine.write(named[1], block.text)

    def _mermaid(self, block: Block) -> None:
        """A drawing. States in it are those of a replica, each of them reached or left."""
        if block.text.startswith("stateDiagram"):
            drawn = {*re.findall(r"(\w+) -->", block.text), *re.findall(r"--> (\w+)", block.text)}
            assert drawn == set(get_args(ReplicaState)) - {"Unknown", "Held", "Lost"}
        else:
            assert block.text.startswith("flowchart "), block

    def _plain(self, block: Block) -> None:
        """Output: of a command that is run as in a console, or one event of a stream."""
        if block.text.startswith("$ "):
            self._console(block)
        else:
            assert block.text.startswith("data: "), f"{block}: no rule for a block without a language"
            assert "error" in json.loads(block.text.removeprefix("data: "))


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Commands behind `$ `, each with what the page shows of its output."""
    command = ""
    shown: list[str] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line.removeprefix("$ "), []
        elif line.strip():
            shown.append(line)
    yield command, shown


def _compare(block: Block, shown: list[str], real: str) -> None:
    difference = _difference(shown, real)
    assert not difference, f"{block}: {difference}"


def _difference(shown: list[str], real: str) -> str:
    """What is shown and not said: of a table its head, else every line, numbers apart, up to its `…`."""
    lines = [_alike(line) for line in real.splitlines()]
    wanted = shown[:1] if re.fullmatch(r"[A-Z /]+", shown[0]) else shown
    for line in wanted:
        begin, cut, _ = _alike(line).partition("…")
        if not any(said.startswith(begin.rstrip()) if cut else said == begin for said in lines):
            return f"{line!r} is not in\n{real}"
    return ""


def _alike(line: str) -> str:
    line = re.sub(r"\d+", "#", " ".join(line.split()))
    return re.sub(r"# CPUs?, # GiB, (no|#) GPUs?", "# CPUs, # GiB, no GPU", line)


# --- the pages -----------------------------------------------------------------------------------------


def _page(page: Path) -> Any:
    """A page that runs an engine is a test with a real engine; the others are quick."""
    text = "".join(block.text for block in blocks_of(page) if block.language != "mermaid")
    needs_engine = re.search(r"^(\$ )?llmgw (up|ctl) |:8080|^systemctl", text, re.MULTILINE)
    marks = [pytest.mark.e2e, pytest.mark.engine, pytest.mark.timeout(900)] if needs_engine else []
    return pytest.param(page, marks=marks, id=page.name if page.parent == ROOT else f"docs-{page.name}")


@pytest.mark.parametrize("page", [_page(page) for page in PAGES if blocks_of(page)])
def test_a_page_does_what_it_says(
    page: Path,
    machine: Any,
    until: Callable[..., Any],
    distributions: Mapping[str, frozenset[str]],
) -> None:
    reader = Reader(machine, until, distributions)
    for name, text in GIVEN.get(page.name, {}).items():
        machine.write(name, text)
    for name, text in PROGRAMS.get(page.name, {}).items():
        machine.write(name, text).chmod(0o755)
    for block in blocks_of(page):
        reader.read(block)


WRONG: Mapping[str, tuple[str, str]] = {
    "a language without a rule": ("ruby", "puts 1\n"),
    "a command that fails": ("bash", "llmgw catalog check absent.yaml\n"),
    "a command in the middle that fails": ("bash", "false\ntrue\n"),
    "a command that is not there": ("bash", "llmgw catalogue\n"),
    "an option that is not there": ("bash", "llmgw version --nope\n"),
    "a package that is not ours": ("bash", "pip install llmgw-cores\n"),
    "an extra that is not there": ("bash", 'pip install "llmgw-llamacpp[cuda]"\n'),
    "a command beside what is only checked": ("bash", "pip install llmgw-core\nllmgw version\n"),
    "output that is not said": ("console", "$ llmgw version\nllmgw-cores 0.1.0\n"),
    "a table with another head": ("console", "$ llmgw plugins\nNAME  TYPE\n"),
    "a program that raises": ("python", "import llmgw_cores\n"),
    "a key that a catalog does not have": ("yaml", "version: 1\nmodels: {a: {sauce: /x}}\n"),
    "a key that a server does not have": ("yaml", "# server.yaml\nstate_dir: x\nlisten: 127.0.0.1:1\n"),
    "a file of no kind": ("yaml", "a: b\n"),
    "a state that is none": ("mermaid", "stateDiagram-v2\n    Ready --> Gone\n"),
    "text without a rule": ("", "something\n"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_snippet_that_is_wrong_is_noticed(
    what: str, machine: Any, until: Callable[..., Any], distributions: Mapping[str, frozenset[str]]
) -> None:
    language, text = WRONG[what]
    reader = Reader(machine, until, distributions)
    with pytest.raises((AssertionError, ConfigError)):
        reader.read(Block(ROOT / "README.md", 1, language, text))
