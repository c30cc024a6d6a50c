"""`llmgw agent run` as a process: one per state directory, and what its signals mean."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("x\n")
    path = tmp_path / "agent.yaml"
    path.write_text(
        "node: n1\naddress: 127.0.0.1\ncontrol_planes: ['http://127.0.0.1:9']\n"
        f"token_file: {tmp_path}/token\nstate_dir: {tmp_path}/agent\n"
    )
    return path


@pytest.fixture
def start(config: Path, tmp_path: Path) -> Iterator[Start]:
    """Start an agent; returns when it says that it is ready, or at once with `ready=False`."""
    running: list[subprocess.Popen[str]] = []

    def begin(*flags: str, ready: bool = True) -> subprocess.Popen[str]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
            systemd.bind(str(tmp_path / f"notify-{len(running)}"))
            systemd.settimeout(60)
            agent = subprocess.Popen(
                [sys.executable, "-m", "llmgw_core", "agent", "run", "--config", str(config), *flags],
                env={**os.environ, "NOTIFY_SOCKET": systemd.getsockname(), "LLMGW_PLUGINS": ""},
                stderr=subprocess.PIPE,
                text=True,
            )
            running.append(agent)
            while ready and systemd.recv(100) != b"READY=1":
                assert agent.poll() is None
        return agent

    yield begin
    for agent in running:
        agent.kill()
        agent.communicate()


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1))
@pytest.mark.parametrize("flags", ((), ("--drain-and-stop",)))
def test_an_agent_leaves_on_a_signal(start: Start, number: signal.Signals, flags: tuple[str, ...]) -> None:
    agent = start(*flags)
    agent.send_signal(number)
    _, errors = agent.communicate(timeout=60)
    assert agent.returncode == 0, errors
    assert "Traceback" not in errors


def test_hup_does_not_end_it(start: Start) -> None:
    agent = start()
    agent.send_signal(signal.SIGHUP)
    agent.send_signal(signal.SIGTERM)
    _, errors = agent.communicate(timeout=60)
    assert agent.returncode == 0, errors


def test_a_second_agent_of_one_state_directory_is_told_who_holds_it(start: Start) -> None:
    first = start()
    second = start(ready=False)
    _, errors = second.communicate(timeout=60)
    assert second.returncode == 2
    assert f"llmgw agent (pid {first.pid})" in errors
    assert "Traceback" not in errors


def test_a_state_directory_that_cannot_be_used_is_said_in_one_sentence(start: Start, tmp_path: Path) -> None:
    (tmp_path / "agent").write_text("a file in its place")
    agent = start(ready=False)
    _, errors = agent.communicate(timeout=60)
    assert agent.returncode == 2
    assert str(tmp_path / "agent") in errors
    assert "Traceback" not in errors


def test_it_can_be_killed_and_started_again(start: Start) -> None:
    first = start()
    first.kill()
    first.communicate(timeout=60)
    again = start()
    again.send_signal(signal.SIGTERM)
    again.communicate(timeout=60)
    assert again.returncode == 0
