"""A made-up engine with two programs, its plugin's commands, and its help; and the program `llmgw`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from llmgw_core.cli import main
from llmgw_core.engine_check.build import Built, build
from llmgw_core.spec import BinarySpec, Command, EngineInfo, FlagTable, Launch, Shard, Unsupported, parse_help

HELP = """\
usage: toy serve [-h] --model MODEL

options:
  -h, --help            show this
  --model MODEL         what
  --port PORT           where
  --port-range RANGE    where else
  --nodes N, -n N       how many
  --dtype {half,fp8}    number format
  --quiet, --no-quiet   say little [env: TOY_QUIET]
"""
JOIN_HELP = "Usage: toy-join [OPTIONS]\n\nOptions:\n  --address TEXT  where\n  --help          show this\n"
INFO = EngineInfo(name="toy", title="Toy", binary=BinarySpec(names=("toy",)), paths=(), max_nodes=2)

Commands = Callable[[Shard, Launch], tuple[Command, ...]]


def commands(shard: Shard, launch: Launch) -> tuple[Command, ...]:
    """Toy's plugin: a sidecar for several nodes, no LoRA, no other kind than chat."""
    profile = shard.profile
    if profile.lora or shard.kind != "chat":
        raise Unsupported("lora" if profile.lora else "kind", "toys are simple")
    argv = (*launch.binary, "serve", "--model", shard.source, "--port", str(shard.http_port), "--no-quiet")
    argv += ("--dtype", profile.quantization) if profile.quantization else ()
    engine = Command(name="engine", argv=argv, env={"TOY_QUIET": "0", "OTHER": "1"})
    if profile.nodes == 1:
        return (engine,)
    join = Command(name="join", argv=("/opt/bin/toy-join", "--address", shard.leader_address))
    return (join, engine.model_copy(update={"argv": (*argv, "--nodes", str(profile.nodes))}))


@pytest.fixture(scope="session")
def info() -> EngineInfo:
    return INFO


@pytest.fixture(scope="session")
def built() -> Built:
    """The widest commands of Toy's plugin."""
    return build(INFO, commands, binary=("/usr/bin/toy",), version="1.0")


@pytest.fixture(scope="session")
def toy_help() -> str:
    return HELP


@pytest.fixture(scope="session")
def shown() -> Callable[[str], FlagTable]:
    """The table of a help text of Toy's."""
    return lambda text: parse_help(text, engine="toy", version="1.0")


@pytest.fixture(scope="session")
def join_table() -> FlagTable:
    return parse_help(JOIN_HELP, engine="toy", version="0.5", program="toy-join")


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def llmgw() -> Callable[..., Done]:
    """Runs `llmgw …` in this process."""

    def run(*arguments: str | Path, **environment: str) -> Done:
        asked = CliRunner().invoke(
            main.llmgw,
            [str(one) for one in arguments],
            env={"COLUMNS": "200", **environment},
            prog_name="llmgw",
        )
        assert asked.exception is None or isinstance(asked.exception, SystemExit), asked.exception
        return Done(asked.exit_code, asked.stdout, asked.stderr)

    return run


@pytest.fixture
def llmgw_beside(tmp_path: Path) -> Callable[..., Done]:
    """Runs `llmgw …` as its own process, with another directory of packages beside the installed ones."""

    def run(site: Path, *arguments: str | Path) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "llmgw_core", *map(str, arguments)],
            env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(site)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run
