"""Real llama.cpp servers with a real small model, started by the commands that the plugin makes."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
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
    ModelKind,
    Peer,
    Probe,
    ProbeResponse,
    Profile,
    Readiness,
    Shard,
)
from llmgw_llamacpp import plugin
from pydantic import SecretStr

DEADLINE = 60.0
KEY = "key-of-this-test"
MODEL = Path(__file__).resolve().parents[2] / ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf"
EMBEDDED = (sys.executable, "-m", "llmgw_llamacpp.launcher")


class Engine:
    """One engine process and what the agent would ask of it."""

    def __init__(self, shard: Shard, command: Command, log: Path) -> None:
        self.shard = shard
        self.log = log
        secret = {name: value.get_secret_value() for name, value in command.secret_env.items()}
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command.argv,
                env={**kept, **command.env, **secret},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def connect(self) -> http.client.HTTPConnection:
        """A connection that the caller closes."""
        return http.client.HTTPConnection(self.shard.address, self.shard.http_port, timeout=DEADLINE)

    def ask(self, method: str, path: str, body: str | None = None, key: str | None = KEY) -> ProbeResponse:
        """One request, as the agent makes its probes."""
        connection = self.connect()
        try:
            headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return ProbeResponse(status=response.status, body=response.read().decode())
        except OSError as error:
            return ProbeResponse(error=str(error))
        finally:
            connection.close()

    def probe(self, probe: Probe) -> ProbeResponse:
        """The answer to one of the plugin's probes."""
        return self.ask(probe.method, probe.path, probe.body)

    def answers(self) -> dict[str, ProbeResponse]:
        """Probe by probe, the next one only after a 2xx: the contract of the hook that judges them."""
        probes = plugin.llmgw_engine_probes(self.shard)
        assert probes is not None
        found: dict[str, ProbeResponse] = {}
        for name in ("startup", "readiness", "inference"):
            found[name] = self.probe(getattr(probes, name))
            if found[name].status != 200:
                break
        return found

    def verdict(self) -> Readiness:
        """What the plugin says of the engine now."""
        return plugin.llmgw_engine_ready(self.shard, self.answers())

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Return when the condition holds; fails when the engine ends before, or at the deadline."""
        end = time.monotonic() + DEADLINE
        while not condition():
            assert self.process.poll() is None, f"the engine ended before {what}: {self.text()}"
            assert time.monotonic() < end, f"no {what} within {DEADLINE} s: {self.text()}"
            time.sleep(0.05)

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

    def close(self) -> None:
        """Leave no process behind."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE)


def free_port() -> int:
    """A port that was free just now: the engine's port has to be known before it says so in its log."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def make_shard(source: Path, port: int, kind: ModelKind, profile: dict[str, Any]) -> Shard:
    """A shard on loopback with one thread."""
    given = {"name": "cpu", "engine": "llamacpp", "cpus": 1, "max_model_len": 512, **profile}
    given["engine_args"] = {"parallel": 2, **given.get("engine_args", {})}
    return Shard(
        shard="r-abcdefghij/0",
        replica="r-abcdefghij",
        rank=0,
        world=1,
        epoch=Epoch(number=1, control="c"),
        catalog_revision="1-a",
        revision="0123456789ab",
        model="smol",
        served_name="smol",
        kind=kind,
        source=str(source),
        engine="llamacpp",
        profile=Profile(**given),
        peers=(Peer(node="n1", address="127.0.0.1"),),
        address="127.0.0.1",
        leader_address="127.0.0.1",
        http_port=port,
    )


@pytest.fixture(scope="session")
def model() -> Path:
    """The small model; a missing one is a failure, because nothing real would be tested without it."""
    path = Path(os.environ.get("LLMGW_TEST_MODEL") or MODEL)
    if not path.is_file():
        pytest.fail(
            f"the model {path} is missing: scripts/test fetches it, or set LLMGW_TEST_MODEL to a GGUF file"
        )
    return path


@pytest.fixture(scope="session", params=("embedded", "llama-server"))
def binary(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The embedded look-alike, and a real llama-server where there is one."""
    if request.param == "embedded":
        return EMBEDDED
    found = shutil.which("llama-server")
    if found is None:
        pytest.skip("no llama-server on PATH; the embedded one was tested")
    return (found,)


StartEngine = Callable[..., Engine]


@pytest.fixture(scope="session")
def start_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartEngine]:
    """Starts an engine for a source; it is gone when the session is."""
    started: list[Engine] = []

    def start(
        source: Path,
        binary: tuple[str, ...] = EMBEDDED,
        port: int | None = None,
        kind: ModelKind = "chat",
        extra: tuple[str, ...] = (),
        **profile: Any,
    ) -> Engine:
        folder = tmp_path_factory.mktemp("engine")
        shard = make_shard(source, port or free_port(), kind, profile)
        launch = Launch(
            binary=binary, version="1", key=SecretStr(KEY), work_dir=str(folder), log_dir=str(folder)
        )
        (command,) = plugin.llmgw_engine_commands(shard, launch)
        command = command.model_copy(update={"argv": (*command.argv, *extra)})
        started.append(Engine(shard, command, folder / "engine.log"))
        return started[-1]

    yield start
    for engine in started:
        engine.close()


@pytest.fixture
def gguf(tmp_path: Path) -> Callable[..., Path]:
    """Writes a GGUF file of nothing but a header with these texts."""

    def write(version: int = 3, **texts: str) -> Path:
        named = {key.replace("__", "."): value for key, value in texts.items()}
        pairs = b"".join(_text(key) + struct.pack("<I", 8) + _text(value) for key, value in named.items())
        path = tmp_path / "header.gguf"
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", version, 0, len(texts)) + pairs)
        return path

    return write


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded
