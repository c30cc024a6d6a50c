"""The systemd units start commands that exist, and do not take engines down with the agent."""

from __future__ import annotations

import configparser
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

UNITS = Path(__file__).resolve().parents[2] / "packaging" / "systemd"
COMMANDS = {
    "llmgw-server": ("server",),
    "llmgw-gateway": ("gateway",),
    "llmgw-agent": ("agent", "run"),
}


def service(name: str) -> configparser.SectionProxy:
    """The Service section of a unit."""
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    assert unit.read(UNITS / f"{name}.service")
    return unit["Service"]


def test_there_is_one_unit_for_each_daemon() -> None:
    assert {path.stem for path in UNITS.iterdir()} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_unit_starts_a_command_that_takes_these_options(name: str) -> None:
    section = service(name)
    assert section["Type"] == "notify"
    words = shlex.split(section["ExecStart"])[1:]
    command = tuple(word for word in words if not word.startswith(("-", "/")))
    assert command == COMMANDS[name]
    program = [str(Path(sys.executable).parent / "llmgw"), *command, "--help"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [word for word in words if word.startswith("-") and word not in done.stdout] == []


def test_engines_outlive_the_agents_unit() -> None:
    agent = service("llmgw-agent")
    assert agent["KillMode"] == "process"
    assert agent["OOMPolicy"] == "continue"
    assert agent.get("PrivateTmp") is None
