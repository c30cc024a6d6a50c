"""`llmgw up` as a person runs it: real processes, the real engine, the real small model."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

ROOT = Path(__file__).parents[2]
MODEL_FILE = Path(os.environ.get("LLMGW_TEST_MODEL", ROOT / ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf"))
MODEL = "smollm2-135m-instruct"
DEADLINE = 120.0
CHAT: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}


def wait_until(condition: Callable[[], Any], what: str, within: float = DEADLINE) -> Any:
    """Wait until `condition` gives something true, and return it."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {within:g} s: {what}")


def start_time(pid: int) -> int | None:
    """The kernel's start time of a process; None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Up:
    """One `llmgw up` over one state directory."""

    def __init__(self, state: Path, port: int, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.state, self.port = state, port
        self.output = state.parent / f"up-{time.monotonic_ns()}.txt"
        argv = [sys.executable, "-m", "llmgw_core", "up", "--state-dir", str(state), "--port", str(port)]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*argv, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "COLUMNS": "400", **(env or {})},
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def says(self, words: str, within: float = DEADLINE) -> str:
        """Wait until the screen shows `words`; returns the screen."""
        wait_until(
            lambda: words in self.text or self.process.poll() is not None,
            f"{words!r} in\n{self.text}",
            within,
        )
        assert words in self.text, self.text
        return self.text

    def wait(self, within: float = DEADLINE) -> int:
        return self.process.wait(within)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    @property
    def key(self) -> str:
        return (self.state / "api_key").read_text().strip()

    def child(self, name: str) -> int:
        """Pid of a child that is alive."""
        children = json.loads((self.state / "children.json").read_text())
        return int(children[name]["pid"])

    def has_another(self, name: str, pid: int) -> bool:
        """Whether a child was started again; between two lives it is not listed."""
        children = json.loads((self.state / "children.json").read_text())
        return name in children and children[name]["pid"] != pid

    def admin(self, path: str) -> Any:
        """A GET of the admin API; None while the control plane is away."""
        config = (self.state / "config/server.yaml").read_text()
        listen = re.search(r"admin_listen: ['\"]?([\d.:]+)", config)
        assert listen, config
        token = (self.state / "tokens/admin").read_text().strip()
        try:
            answer = httpx2.get(
                f"http://{listen[1]}/admin/v1/{path}",
                headers={"Authorization": f"Bearer {token}"},
                trust_env=False,
                timeout=5,
            )
        except httpx2.HTTPError:
            return None
        return answer.json() if answer.status_code == 200 else None

    def replicas(self) -> list[dict[str, Any]]:
        status = self.admin("replicas")
        return list(status["replicas"]) if status else []

    def engine(self) -> int:
        """Pid of the one engine that is Ready."""
        ready = wait_until(
            lambda: [row for row in self.replicas() if row["state"] == "Ready" and row["pids"]],
            f"a Ready replica; {self.replicas()}\n{self.text}",
        )
        assert len(ready) == 1
        return int(ready[0]["pids"][-1])

    def post(self, body: Any, path: str = "/v1/chat/completions", key: str | None = None) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx2.post(
            f"http://127.0.0.1:{self.port}{path}",
            content=content,
            headers={"Authorization": f"Bearer {key or self.key}", "Content-Type": "application/json"},
            trust_env=False,
            timeout=DEADLINE,
        )

    def answers(self) -> bool:
        """Whether a chat completion comes back."""
        try:
            return self.post(CHAT).status_code == 200
        except httpx2.HTTPError:
            return False


def _end(up: Up) -> None:
    """End what a test left running: the supervisor politely, then whatever it started, by pid."""
    if up.process.poll() is None:
        up.interrupt()
        try:
            up.process.wait(60)
        except subprocess.TimeoutExpired:
            up.process.kill()
            up.process.wait()
    for name in ("agent", "gateway", "server"):
        try:
            pid = up.child(name)
        except (OSError, KeyError):
            continue
        if _is_ours(pid, up.state):
            os.kill(pid, signal.SIGKILL)
    for pid in engines_of(up.state):
        os.kill(pid, signal.SIGKILL)


def _is_ours(pid: int, state: Path) -> bool:
    try:
        return str(state).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def engines_of(state: Path) -> list[int]:
    """Engines whose output goes to this state directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if b"LLMGW_SHARD=" not in (entry / "environ").read_bytes():
                continue
            if str(state) in os.readlink(entry / "fd/1") and start_time(int(entry.name)) is not None:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.fixture
def until() -> Callable[..., Any]:
    """Waits for a condition up to a deadline."""
    return wait_until


@pytest.fixture
def started_at() -> Callable[[int], int | None]:
    """The kernel's start time of a process; None when it is gone."""
    return start_time


@pytest.fixture
def model_file() -> Path:
    """The real small model."""
    assert MODEL_FILE.is_file(), f"{MODEL_FILE} is missing; scripts/test fetches it"
    return MODEL_FILE


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def up(tmp_path: Path, port: int) -> Iterator[Callable[..., Up]]:
    """Starts `llmgw up` over the test's own state directory; ends everything afterwards."""
    assert MODEL_FILE.is_file(), f"{MODEL_FILE} is missing; scripts/test fetches it"
    started: list[Up] = []

    def start(*arguments: str, env: dict[str, str] | None = None, model: Path | None = MODEL_FILE) -> Up:
        chosen = () if model is None else ("--model", str(model))
        started.append(Up(tmp_path / "state", port, *chosen, *arguments, env=env))
        return started[-1]

    yield start
    for one in reversed(started):
        _end(one)
    assert engines_of(tmp_path / "state") == []
