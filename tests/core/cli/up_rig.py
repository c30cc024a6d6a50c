"""A running `llmgw up` with fake children, as tests see it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DEADLINE = 60.0


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Return as soon as `condition` holds; fail with `what` when it never does."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {DEADLINE:.0f} s: {what}")
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Rig:
    """Settings of an `up` that can be started several times on one state directory."""

    path: Path
    admin_port: int = field(default_factory=free_port)
    gateway_port: int = field(default_factory=free_port)
    status: dict[str, Any] = field(default_factory=lambda: {"ready": True})
    served: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, list[str]] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    keep_engines: bool = False
    silent: float = 60.0
    more: list[subprocess.Popen[bytes]] = field(default_factory=list)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def up(self) -> subprocess.Popen[bytes]:
        """Start one; its output goes to a file of its own."""
        self._write()
        with self.output(len(self.started)).open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, str(HERE / "fake_up.py"), str(self.path / "settings.json")],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.started.append(process)
        return process

    def engine(self, model: str = "tiny") -> subprocess.Popen[bytes]:
        """A process that bears the marks of an engine of this state directory."""
        owner = str(self.path / "state" / "agent")
        marks = {"LLMGW_OWNER": owner, "LLMGW_SHARD": "r-1/0:t", "LLMGW_SPEC": json.dumps({"model": model})}
        self.more.append(subprocess.Popen(["sleep", "600"], env={**os.environ, **marks}))
        return self.more[-1]

    def output(self, number: int = 0) -> Path:
        return self.path / f"output-{number}.txt"

    def said(self, text: str, number: int = 0) -> Callable[[], bool]:
        return lambda: text in self.output(number).read_text()

    def journal(self) -> list[list[str]]:
        """Name, word, pid and time of everything that a child did, in order."""
        file = self.path / "journal"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def words(self, name: str) -> list[str]:
        return [row[1] for row in self.journal() if row[0] == name and row[1] != "listens"]

    def pids(self, name: str) -> list[int]:
        return [int(row[2]) for row in self.journal() if row[0] == name and row[1] == "start"]

    def wait_started(self) -> None:
        names = ("server", "gateway", "agent")
        wait_for(
            lambda: {name for name, word, *_ in self.journal() if word == "listens"} >= set(names),
            "every child started",
        )

    def close(self) -> None:
        for process in (*self.started, *self.more):
            process.kill()
            process.wait()
        for row in self.journal():
            if row[1] == "start" and self._is_ours(int(row[2])):
                os.kill(int(row[2]), signal.SIGKILL)

    def _is_ours(self, pid: int) -> bool:
        try:
            return str(self.path).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    def _write(self) -> None:
        (self.path / "status.json").write_text(json.dumps(self.status))
        (self.path / "models.json").write_text(json.dumps({"data": self.served}))
        usual: dict[str, Sequence[str]] = {
            "server": ("--port", str(self.admin_port), "--answer", str(self.path / "status.json")),
            "gateway": ("--port", str(self.gateway_port), "--answer", str(self.path / "models.json")),
            "agent": (),
        }
        settings = {
            "root": str(self.path / "state"),
            "admin": f"127.0.0.1:{self.admin_port}",
            "gateway": f"127.0.0.1:{self.gateway_port}",
            "keep_engines": self.keep_engines,
            "silent": self.silent,
            "children": {
                name: {
                    "argv": [
                        sys.executable,
                        str(HERE / "fake_child.py"),
                        name,
                        str(self.path / "journal"),
                        *self.options.get(name, arguments),
                    ],
                    "fingerprint": self.fingerprints.get(name, "same"),
                }
                for name, arguments in usual.items()
            },
        }
        (self.path / "settings.json").write_text(json.dumps(settings))
