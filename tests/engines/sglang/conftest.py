"""Real SGLang servers on CPUs, started by the commands that the plugin makes.

They run where LLMGW_SGLANG_PYTHON names the interpreter of an environment with SGLang; plugins/llmgw-sglang
says how to make one for CPUs.
"""

from __future__ import annotations

import http.client
import os
import re
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llmgw_core.spec import (
    Command,
    Epoch,
    FailurePattern,
    Launch,
    Peer,
    ProbeResponse,
    Profile,
    Readiness,
    Shard,
)
from llmgw_sglang import plugin
from pydantic import SecretStr

DEADLINE = 600.0  # seconds; every start imports torch in three processes
KEY = "5e1f" * 16
ADDRESSES = ("127.0.0.1", "127.0.0.2")
# Without a list of cores for each rank it wants as many NUMA nodes as ranks.
CORES = {"SGLANG_CPU_OMP_THREADS_BIND": "0|1"}


class Engine:
    """One rank and what the agent would ask of it."""

    def __init__(self, shard: Shard, command: Command, log: Path) -> None:
        self.shard = shard
        self.command = command
        self.log = log
        self.key = KEY
        self.marker = f"LLMGW_SHARD={shard.shard}:{secrets.token_hex(8)}"
        for path, content in command.secret_files.items():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(content.get_secret_value())
        name, _, value = self.marker.partition("=")
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command.argv,
                env={**kept, **command.env, "SPT_NOENV": "1", name: value},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        """A connection that the caller closes."""
        return http.client.HTTPConnection(self.shard.address, self.shard.http_port, timeout=timeout)

    def ask(
        self, method: str, path: str, body: str | None = None, key: str | None = KEY, timeout: float = 60.0
    ) -> ProbeResponse:
        """One request, as the agent makes its probes."""
        connection = self.connect(timeout)
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return ProbeResponse(status=response.status, body=response.read().decode())
        except OSError as error:
            return ProbeResponse(error=str(error))
        finally:
            connection.close()

    def verdict(self) -> Readiness:
        """What the plugin says of it now: probe by probe, the next one only after a 2xx."""
        probes = plugin.llmgw_engine_probes(self.shard)
        assert probes is not None
        found: dict[str, ProbeResponse] = {}
        for name in ("startup", "readiness", "inference"):
            probe = getattr(probes, name)
            found[name] = self.ask(probe.method, probe.path, probe.body, timeout=probe.timeout)
            if found[name].status != 200:
                break
        return plugin.llmgw_engine_ready(self.shard, found)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Return when the condition holds; fails when the engine ends before, or at the deadline."""
        end = time.monotonic() + DEADLINE
        while not condition():
            assert self.process.poll() is None, f"it ended before {what}: {self.text()[-4000:]}"
            assert time.monotonic() < end, f"no {what} within {DEADLINE} s: {self.text()[-4000:]}"
            time.sleep(0.2)

    def wait_ready(self) -> None:
        """Return when the plugin says ready."""
        self.wait_until(lambda: self.verdict().ready, "readiness")

    def text(self) -> str:
        """Its whole log."""
        return self.log.read_text(errors="replace")

    def ended(self) -> int:
        """Its exit code, negative for a signal; fails when it does not end."""
        return self.process.wait(DEADLINE)

    def failure(self) -> FailurePattern | None:
        """The pattern that classifies the last 2 KiB of its log."""
        tail = self.text()[-2048:]
        patterns = plugin.llmgw_engine_info().failure_patterns
        return next((one for one in patterns if re.search(one.pattern, tail)), None)

    def pids(self) -> set[int]:
        """Every process that carries its marker, found as the agent finds them."""
        return {pid for pid in _pids() if self.marker.encode() in _read(pid, "environ").split(b"\0")}

    def command_lines(self) -> list[bytes]:
        """What every user of the machine can read of its processes; never empty."""
        lines = [_read(pid, "cmdline") for pid in self.pids()]
        assert any(self.command.argv[0].encode() in line for line in lines)
        return lines

    def listening(self) -> set[tuple[str, int]]:
        """Addresses (`*` for all) and ports on which its processes listen."""
        owned = {link for pid in self.pids() for link in _links(pid)}
        return {place for place, inode in _listeners() if f"socket:[{inode}]" in owned}

    def close(self) -> None:
        """Leave no process behind."""
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(DEADLINE)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _links(pid: int) -> list[str]:
    try:
        return [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []


def _listeners() -> Iterator[tuple[tuple[str, int], str]]:
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, port = fields[1].split(":")
            if fields[3] == "0A":
                yield ("*" if not address.strip("0") else address, int(port, 16)), fields[9]


def free_port() -> int:
    """A port that was free just now, on every address."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def sglang() -> tuple[str, str, str]:
    """Interpreter, program and version of the SGLang to test."""
    python = os.environ.get("LLMGW_SGLANG_PYTHON")
    if not python:
        pytest.skip("LLMGW_SGLANG_PYTHON is not set; plugins/llmgw-sglang/README.md has the recipe for CPUs")
    program = str(Path(python).parent / "sglang")
    shown = subprocess.run(
        [program, "version"], capture_output=True, text=True, check=True, timeout=DEADLINE
    ).stdout
    found = re.search(plugin.llmgw_engine_info().binary.version_pattern, shown)
    assert found is not None
    return python, program, found[1]


@pytest.fixture(scope="session")
def model(sglang: tuple[str, str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    script = Path(__file__).with_name("tiny_model.py")
    subprocess.run([sglang[0], str(script), str(folder)], check=True, timeout=DEADLINE)
    return folder


MakeEngine = Callable[..., Engine]


@pytest.fixture(scope="session")
def start_engine(
    sglang: tuple[str, str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MakeEngine]:
    """Starts one rank of a model; it is gone when the session is."""
    started: list[Engine] = []

    def start(
        source: Path,
        rank: int = 0,
        nodes: int = 1,
        ports: tuple[int, int] | None = None,
        extra: tuple[str, ...] = (),
        **profile: Any,
    ) -> Engine:
        folder = tmp_path_factory.mktemp("engine")
        http, rendezvous = ports or (free_port(), free_port())
        shard = _shard(source, rank, nodes, (http, rendezvous), profile)
        launch = Launch(
            binary=(sglang[1],),
            version=sglang[2],
            interface="lo",
            key=SecretStr(KEY),
            work_dir=str(folder),
            log_dir=str(folder),
        )
        (command,) = plugin.llmgw_engine_commands(shard, launch)
        command = command.model_copy(update={"argv": (*command.argv, *extra)})
        started.append(Engine(shard, command, folder / "engine.log"))
        return started[-1]

    yield start
    for engine in started:
        engine.close()


def _shard(source: Path, rank: int, nodes: int, ports: tuple[int, int], profile: dict[str, Any]) -> Shard:
    given = {
        "name": "cpu",
        "engine": "sglang",
        "nodes": nodes,
        "tensor_parallel": nodes,
        "max_model_len": 256,
        "env": CORES if nodes > 1 else {},
        **profile,
    }
    return Shard(
        shard=f"r-abcdefghij/{rank}",
        replica="r-abcdefghij",
        rank=rank,
        world=nodes,
        epoch=Epoch(number=1, control="c"),
        catalog_revision="1-a",
        revision="0123456789ab",
        model="tiny",
        served_name="tiny",
        source=str(source),
        engine="sglang",
        profile=Profile(**given),
        peers=tuple(Peer(node=f"n{i}", address=ADDRESSES[i]) for i in range(nodes)),
        address=ADDRESSES[rank],
        leader_address=ADDRESSES[0],
        http_port=ports[0],
        rendezvous_port=ports[1] if nodes > 1 else None,
        extra_ports={"rendezvous": (ports[1],)} if rank == 0 else {},
    )
