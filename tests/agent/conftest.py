"""Fakes for the agent's tests: an engine that is a small Python script, and a control plane in memory."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from llmgw_agent import procfs
from llmgw_agent.daemon import Agent
from llmgw_agent.disk import FileDisk
from llmgw_agent.host import LinuxHost
from llmgw_agent.process import LinuxProc
from llmgw_core.config import AgentConfig
from llmgw_core.net import HttpNet
from llmgw_core.plugins import PluginHost
from llmgw_core.ports import AgentPorts, Stream
from llmgw_core.spec import (
    HOOK_API,
    Ack,
    Assign,
    BinarySpec,
    Capability,
    Command,
    EngineInfo,
    Epoch,
    FailurePattern,
    Launch,
    Lead,
    NodeReport,
    Peer,
    PluginInfo,
    Probe,
    ProbeResponse,
    Probes,
    Profile,
    Readiness,
    Register,
    Report,
    Shard,
    ShardStatus,
    StopOrder,
    StreamEnded,
    Support,
    Timeouts,
    Unsupported,
    Value,
    Welcome,
    decode,
    encode,
    hookimpl,
)
from llmgw_core.system import SystemClock, SystemRand
from llmgw_core.timers import FAST
from pydantic import SecretStr

DEADLINE = 60.0
KEY = "the-key-of-this-engine"
A1 = Epoch(number=1, control="A")

ENGINE = Path(__file__).with_name("fake_engine.py")


class FakeEngine:
    """An engine plugin whose engine is `fake_engine.py`; `engine_args` of the profile are its flags."""

    @hookimpl
    def llmgw_plugin_info(self) -> PluginInfo:
        return PluginInfo(name="fake", kind="engine", api=HOOK_API, summary="a script for tests")

    @hookimpl
    def llmgw_engine_info(self) -> EngineInfo:
        return EngineInfo(
            name="fake",
            title="Fake",
            binary=BinarySpec(
                names=("no-such-engine",),
                fallback=("{python}", "-S", str(ENGINE)),
                install_hint="it is part of the tests",
            ),
            capabilities={Capability.CPU: Support.SUPPORTED},
            paths=("/v1/completions",),
            failure_patterns=(
                FailurePattern(pattern="cannot open model", failure="configuration", hint="check the path"),
            ),
        )

    @hookimpl
    def llmgw_engine_commands(self, shard: Shard, launch: Launch) -> tuple[Command, ...]:
        flags = dict(shard.profile.engine_args)
        if "unsupported" in flags:
            raise Unsupported("engine_args.unsupported", "the fake engine cannot do it")
        argv = (*launch.binary, "--port", str(shard.http_port))
        for name, value in flags.items():
            argv = (*argv, f"--{name}", *(() if value is None else (str(value),)))
        key = {"FAKE_KEY": launch.key} if launch.key else {}
        return (Command(name="engine", argv=argv, secret_env=key),)

    @hookimpl
    def llmgw_engine_probes(self, shard: Shard) -> Probes | None:
        return Probes(
            startup=Probe(path="/health"),
            readiness=Probe(path="/v1/models"),
            inference=Probe(method="POST", path="/v1/completions", body="{}"),
            liveness=Probe(path="/health"),
        )

    @hookimpl
    def llmgw_engine_ready(self, responses: Mapping[str, ProbeResponse]) -> Readiness:
        inference = responses.get("inference")
        ready = inference is not None and inference.status == 200
        return Readiness(ready=ready, reason="" if ready else f"asked {', '.join(responses)}")


@dataclass
class MemoryStream:
    """One end of a stream between two tasks."""

    incoming: MemoryObjectReceiveStream[str]
    outgoing: MemoryObjectSendStream[str]

    async def send(self, text: str) -> None:
        try:
            await self.outgoing.send(text)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise StreamEnded("closed by the other side") from None

    async def receive(self) -> str:
        try:
            return await self.incoming.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            raise StreamEnded("closed by the other side") from None

    async def close(self) -> None:
        self.outgoing.close()
        self.incoming.close()


def stream_pair() -> tuple[MemoryStream, MemoryStream]:
    """Two ends that are connected."""
    up, from_up = anyio.create_memory_object_stream[str](100)
    down, from_down = anyio.create_memory_object_stream[str](100)
    return MemoryStream(from_down, up), MemoryStream(from_up, down)


@dataclass
class ControlPlane:
    """The other end of the stream, and the Net through which the agent reaches it."""

    cluster: str = "c1"
    real: HttpNet = field(default_factory=HttpNet)
    reachable: bool = True
    acks: bool = True
    leads: bool = True
    epoch: Epoch = A1
    number: int = 0
    registers: list[Register] = field(default_factory=list)
    received: list[Value] = field(default_factory=list)
    stream: MemoryStream | None = None
    echoed: Epoch | None = None

    @asynccontextmanager
    async def connect(self, url: str, token: str) -> AsyncIterator[Stream]:
        if not self.reachable:
            raise StreamEnded("nobody answers")
        assert token == "agent-token"
        assert url == "ws://127.0.0.1:1/agent/v1/stream"
        ours, theirs = stream_pair()
        failure: Exception | None = None
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._serve, ours)
                try:
                    yield theirs
                except Exception as error:  # comes out of the block as it is, as the port promises
                    failure = error
                finally:
                    await theirs.close()  # what was sent before still arrives
        finally:
            self.stream = self.echoed = None
            await ours.close()
        if failure is not None:
            raise failure

    async def _serve(self, stream: MemoryStream) -> None:
        with suppress(StreamEnded):
            while True:
                message = decode(await stream.receive())
                with suppress(StreamEnded):  # an agent that no longer listens may still have said bye
                    await self._take(stream, message)

    async def _take(self, stream: MemoryStream, message: Value) -> None:
        self.received.append(message)
        if isinstance(message, Register):
            self.registers.append(message)
            self.stream, self.echoed = stream, None
            await stream.send(
                encode(Welcome(cluster=self.cluster, control="A", leader=True, report_every=FAST.report))
            )
            if self.leads:
                await self.send(Lead(cluster=self.cluster, epoch=self.epoch))
        if isinstance(message, Report) and message.echo:
            self.echoed = message.echo
        if isinstance(message, Register | Report) and self.acks:
            await stream.send(encode(Ack(seq=message.seq)))

    async def send(self, message: Value) -> None:
        assert self.stream is not None
        await self.stream.send(encode(message))

    async def assign(self, **fields: Any) -> None:
        """Send the next assignment, once the lead was echoed."""
        await self.until(lambda: self.echoed == self.epoch)
        self.number += 1
        await self.send(Assign(epoch=self.epoch, number=self.number, **fields))

    async def run(self, shard: Shard) -> None:
        await self.assign(run=(shard,), keys={shard.replica: SecretStr(KEY)})

    async def stop(self, shard: Shard, grace: float = 5.0) -> None:
        await self.assign(stop=(StopOrder(shard=shard.shard, reason="test", grace=grace),))

    def status(self, shard: Shard) -> ShardStatus | None:
        """The last status that was reported of a shard."""
        for message in reversed(self.received):
            if isinstance(message, Report):
                return next((one for one in message.shards if one.shard == shard.shard), None)
        return None

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition, up to the deadline of the tests."""
        with anyio.fail_after(DEADLINE):
            while not condition():
                await anyio.sleep(0.01)

    async def reaches(self, shard: Shard, *states: str) -> ShardStatus:
        """Wait until a shard is reported in one of these states."""
        try:
            await self.until(lambda: (status := self.status(shard)) and status.state in states)
        except TimeoutError:
            pytest.fail(f"{shard.shard} never became {states}: {self.status(shard)}")
        status = self.status(shard)
        assert status is not None
        return status

    async def request(self, *args: Any, **kwargs: Any) -> Any:
        return await self.real.request(*args, **kwargs)

    async def listening(self, host: str, port: int) -> bool:
        return await self.real.listening(host, port)

    async def can_bind(self, host: str, port: int) -> bool:
        return await self.real.can_bind(host, port)


@dataclass
class Node:
    """One state directory with its control plane; `agent()` runs an agent over it."""

    config: AgentConfig
    control: ControlPlane
    plugins: PluginHost
    host: LinuxHost = field(default_factory=LinuxHost)

    def ports(self) -> AgentPorts:
        return AgentPorts(
            clock=SystemClock(),
            net=self.control,
            proc=LinuxProc(str(self.config.state_dir)),
            disk=FileDisk(),
            rand=SystemRand(),
        )

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent]:
        """An agent that has adopted; leaving the block ends it like a crash."""
        agent = Agent(self.config, self.ports(), self.plugins, self.host)
        async with anyio.create_task_group() as group:
            await group.start(agent.run)
            yield agent
            group.cancel_scope.cancel()

    async def kill(self, pid: int) -> None:
        """End a process by force, and return when it is dead."""
        os.kill(pid, signal.SIGKILL)
        with anyio.fail_after(DEADLINE):
            while (found := procfs.stat(pid)) and not found.dead:
                await anyio.sleep(0.01)

    def left(self) -> list[int]:
        """Pids of this node's engines that still live."""
        return [seen.id.pid for seen in LinuxProc(str(self.config.state_dir))._scan()]

    def file(self, shard: Shard) -> Path:
        return self.config.state_dir / "shards" / f"{shard.replica}-{shard.rank}.json"

    def log(self, shard: Shard) -> str:
        path = self.config.state_dir / "logs" / f"{shard.replica}-{shard.rank}" / "engine.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    token = tmp_path / "token"
    token.write_text("agent-token\n")
    config = AgentConfig(
        node="n1",
        address="127.0.0.1",
        control_planes=("http://127.0.0.1:1",),
        token_file=token,
        state_dir=tmp_path / "agent",
        timers=FAST,
    )
    node = Node(config, ControlPlane(), PluginHost.of(FakeEngine()))
    yield node
    for pid in node.left():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def make_shard(free_port: int) -> Callable[..., Shard]:
    """Make the shard of a replica on n1; keyword arguments are flags of the fake engine."""

    def make(replica: str = "r-aaaaaaaaaa", **flags: Any) -> Shard:
        return Shard(
            shard=f"{replica}/0",
            replica=replica,
            rank=0,
            world=1,
            epoch=A1,
            catalog_revision="1-x",
            revision="0" * 12,
            model="m",
            served_name="m",
            source="/models/m",
            engine="fake",
            profile=Profile(
                name="cpu", engine="fake", engine_args={k.replace("_", "-"): v for k, v in flags.items()}
            ),
            peers=(Peer(node="n1", address="127.0.0.1"),),
            address="127.0.0.1",
            leader_address="127.0.0.1",
            http_port=free_port,
            timeouts=Timeouts(start=30, load=60, wait=30, drain=5, kill=5),
            key_version=1,
        )

    return make


@pytest.fixture
def node_report() -> NodeReport:
    return NodeReport(node="n1", address="127.0.0.1", cpus=8, memory_mib=8192)


@pytest.fixture
def python() -> str:
    return sys.executable


@pytest.fixture
def fake_engine() -> FakeEngine:
    """The engine plugin that the nodes of these tests have."""
    return FakeEngine()
