"""A machine of its own for a reader of the documentation: home, model, ports, and the commands as written."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

ROOT = Path(__file__).parents[2]
MODEL_FILE = Path(os.environ.get("LLMGW_TEST_MODEL", ROOT / ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf"))
UNITS = ROOT / "packaging" / "systemd"
BIN = Path(sys.executable).parent
DEADLINE = 120.0
DEFAULT_UP = "llmgw up --model /srv/models/SmolLM2-135M-Instruct.Q4_1.gguf"


def wait_until(condition: Callable[[], Any], what: Callable[[], str]) -> Any:
    """Wait until `condition` gives something true, and return it."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {DEADLINE:g} s: {what()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Machine:
    """What a page means by its paths, addresses and ports, under a directory of the test.

    `/srv`, `/etc/llmgw` and `/var` lie below `root`, which is also the home directory; 8080 and 8081 are
    free ports, 10.0.0.1 is this machine, and `llmgw-…` is the key of its `llmgw up`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port, self.admin_port, self._engine_port = free_port(), free_port(), free_port()
        self._up: subprocess.Popen[bytes] | None = None
        self._screen = root / "screen.txt"
        self._units: dict[str, subprocess.Popen[bytes]] = {}
        self._lay_out()

    def _lay_out(self) -> None:
        for directory in ("srv/models", "etc/llmgw", "var/backups", "var/lib"):
            (self.root / directory).mkdir(parents=True)
        if MODEL_FILE.is_file():
            (self.root / "srv/models/SmolLM2-135M-Instruct.Q4_1.gguf").symlink_to(MODEL_FILE)
        # A page's curl that gets an error would else exit 0.
        (self.root / ".curlrc").write_text('fail-with-body\nsilent\nshow-error\nnoproxy = "*"\n')
        (self.root / "exports").write_text("")
        (self.root / "srv/llmgw").symlink_to(ROOT)

    @property
    def environment(self) -> dict[str, str]:
        """Of every command. Engines get a port range of their own, away from other tests."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("LLMGW_", "XDG_"))}
        return {
            **own,
            "HOME": str(self.root),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "NO_PROXY": "*",
            "COLUMNS": "400",
            "LLMGW_AGENT__PORT_RANGE__FIRST": str(self._engine_port),
            "LLMGW_AGENT__PORT_RANGE__LAST": str(self._engine_port + 9),
        }

    def translate(self, text: str) -> str:
        """A page's text with this machine's paths, addresses and ports."""
        text = re.sub(r"(?<![\w.])/(srv|etc/llmgw|var)/", rf"{self.root}/\1/", text)
        text = text.replace("/opt/llmgw/bin/llmgw", str(BIN / "llmgw")).replace("10.0.0.1", "127.0.0.1")
        text = text.replace(":8080", f":{self.port}").replace(":8081", f":{self.admin_port}")
        return text.replace("llmgw-…", self._key()) if "llmgw-…" in text else text

    def write(self, name: str, text: str) -> Path:
        """A file that a page shows, where the page says it is."""
        path = self.root / self.translate(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.translate(text))
        return path

    def install(self, directory: str) -> None:
        """What `pip install -e` does with a distribution that needs nothing but what is here."""
        home = self.root / directory
        project = tomllib.loads((home / "pyproject.toml").read_text())["project"]
        info = self.root / "site" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir(parents=True)
        head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        (info / "METADATA").write_text(head)
        groups = project["entry-points"].items()
        lines = (f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in one.items()) for group, one in groups)
        (info / "entry_points.txt").write_text("\n".join(lines))
        with (self.root / "exports").open("a") as exports:
            exports.write(f'export PYTHONPATH="{info.parent}:{home / "src"}"\n')

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a page's shell commands; what they export holds for the page's later ones."""
        wrapped = f"set -euo pipefail\n. ./exports\n{self.translate(script)}\nexport -p > exports\n"
        return subprocess.run(
            ["bash", "-c", wrapped],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
        )

    def up(self, command: str) -> str:
        """Run a `llmgw up`, after the one before was ended, until every model stands; its screen."""
        self._end_up()
        argv = [*shlex.split(self.translate(command)), "--port", str(self.port)]
        assert MODEL_FILE.is_file(), f"{MODEL_FILE} is missing; scripts/test fetches it"
        with self._screen.open("wb") as output:
            self._up = subprocess.Popen(
                argv,
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        up = self._up
        wait_until(lambda: "Ctrl-C stops" in self.screen or up.poll() is not None, lambda: self.screen)
        assert up.poll() is None, self.screen
        self._wait_for_models()
        return self.screen

    @property
    def screen(self) -> str:
        """What `llmgw up` has shown."""
        return self._screen.read_text(errors="replace")

    def serve(self) -> None:
        """Have something that answers at port 8080, for a page that takes it for granted."""
        if self._up is None and not self._units:
            self.up(DEFAULT_UP)

    def systemctl(self, command: str, units: list[str]) -> None:
        """What systemd would do with our units, without it."""
        for unit in units:
            if command == "reload":
                self._units[unit].send_signal(signal.SIGHUP)
                continue
            if command == "restart":
                self._units[unit].terminate()
                self._units[unit].wait(DEADLINE)
            self._units[unit] = self._start_unit(unit)
        self._wait_for_models()

    def _start_unit(self, unit: str) -> subprocess.Popen[bytes]:
        file = configparser.ConfigParser(interpolation=None)
        file.optionxform = str  # type: ignore[assignment,method-assign]
        assert file.read(UNITS / f"{unit}.service"), f"there is no unit {unit}"
        argv = shlex.split(self.translate(file["Service"]["ExecStart"]))
        with (self.root / f"{unit}.log").open("ab") as log:
            return subprocess.Popen(
                argv, env=self.environment, stdout=log, stderr=log, cwd="/", start_new_session=True
            )

    def _wait_for_models(self) -> None:
        """Until every model is served, or cannot be placed on a machine as small as this."""

        def stand() -> bool:
            states = [model["state"] for model in self._admin_get("models").get("models", ())]
            return bool(states) and set(states) <= {"ready", "unschedulable"} and "ready" in states

        def gateway_serves() -> bool:
            try:
                url = f"http://127.0.0.1:{self.port}/readyz"
                return httpx2.get(url, trust_env=False, timeout=10).status_code == 200
            except httpx2.HTTPError:
                return False

        wait_until(lambda: stand() and gateway_serves(), self._logs)

    def _admin_get(self, path: str) -> Mapping[str, Any]:
        port, token = self.admin_port, self.root / "etc/llmgw/tokens/admin"
        if self._up is not None:
            listen = re.search(r"admin_listen: \S+?:(\d+)", (self._state / "config/server.yaml").read_text())
            assert listen
            port, token = int(listen[1]), self._state / "tokens/admin"
        try:
            answer = httpx2.get(
                f"http://127.0.0.1:{port}/admin/v1/{path}",
                headers={"Authorization": f"Bearer {token.read_text().strip()}"},
                trust_env=False,
                timeout=10,
            )
        except httpx2.HTTPError:
            return {}
        return dict(answer.json()) if answer.status_code == 200 else {}

    @property
    def _state(self) -> Path:
        return self.root / ".local/state/llmgw"

    def _key(self) -> str:
        return (self._state / "api_key").read_text().strip()

    def _logs(self) -> str:
        files = (self._screen, *self._state.glob("logs/*.log"), *self.root.glob("*.log"))
        ends = (f"{file}\n{file.read_text(errors='replace')[-2000:]}" for file in files if file.exists())
        return "every model to be served\n" + "\n".join(ends)

    def _end_up(self) -> None:
        if self._up is not None:
            self._up.send_signal(signal.SIGINT)
            assert self._up.wait(DEADLINE) == 0, self.screen
            self._up = None

    def close(self) -> None:
        """End whatever a page started and did not end."""
        processes = [*([self._up] if self._up else []), *self._units.values()]
        for process in processes:
            process.send_signal(signal.SIGINT)
        try:
            for process in processes:
                process.wait(60)
        finally:
            for pid in self._left():
                os.kill(pid, signal.SIGKILL)
            for process in processes:
                process.wait()

    def _left(self) -> list[int]:
        """Processes that live in this machine's directory: its daemons and its engines."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                home = f"HOME={self.root}\0".encode()
                if home in (entry / "environ").read_bytes() and int(entry.name) != os.getpid():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine of a page's own; everything on it is ended afterwards."""
    own = Machine(tmp_path)
    try:
        yield own
    finally:
        own.close()


@pytest.fixture
def until() -> Callable[..., Any]:
    """Waits for a condition up to a deadline."""
    return wait_until


@pytest.fixture(scope="session")
def distributions() -> Mapping[str, frozenset[str]]:
    """Every member of the workspace, and its extras."""
    listing = subprocess.run(
        ["git", "ls-files", "--", "*pyproject.toml"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    projects = (tomllib.loads((ROOT / name).read_text()).get("project") for name in listing.stdout.split())
    return {
        project["name"]: frozenset(project.get("optional-dependencies", ()))
        for project in projects
        if project is not None
    }
