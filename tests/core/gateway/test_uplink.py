"""The stream to the control plane, over queues in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from llmgw_core.credentials import key_hash
from llmgw_core.gateway import uplink as uplink_module
from llmgw_core.gateway.accounting import Journal
from llmgw_core.gateway.state import GatewayState
from llmgw_core.gateway.uplink import Uplink
from llmgw_core.spec import (
    ApiKey,
    Bye,
    Epoch,
    GatewayHello,
    GatewayLoad,
    GatewayMessage,
    Keys,
    Refused,
    Secrets,
    StreamEnded,
    Table,
    Unknown,
    Usage,
    UsageRow,
    UsageStored,
    Value,
    Welcome,
    decode_gateway,
    encode,
)
from llmgw_core.system import SystemClock, SystemRand
from pydantic import SecretStr

pytestmark = pytest.mark.anyio
WELCOME = Welcome(cluster="c1", control="cp", leader=True, report_every=1.0)
TABLE = Table(epoch=Epoch(number=3, control="cp"), version=7, complete=True)


class MemoryStream:
    """One end of a stream."""

    def __init__(self, inbox: MemoryObjectReceiveStream[str], outbox: MemoryObjectSendStream[str]) -> None:
        self.inbox = inbox
        self.outbox = outbox

    async def send(self, text: str) -> None:
        try:
            await self.outbox.send(text)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise StreamEnded("gone") from None

    async def receive(self) -> str:
        try:
            return await self.inbox.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            raise StreamEnded("gone") from None

    async def close(self) -> None:
        self.inbox.close()
        self.outbox.close()


class ControlPlane:
    """The other end: accepts connections as port Net, and lets a test speak on the newest of them."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.tokens: list[str] = []
        self.refuse = 0
        self.accepted, self.newest = anyio.create_memory_object_stream[MemoryStream](10)
        self.stream: MemoryStream | None = None
        self._ends: list[MemoryStream] = []

    @asynccontextmanager
    async def connect(self, url: str, token: str) -> AsyncIterator[MemoryStream]:
        self.urls.append(url)
        self.tokens.append(token)
        if self.refuse:
            self.refuse -= 1
            raise StreamEnded("nobody there")
        up_in, up_out = anyio.create_memory_object_stream[str](100)
        down_in, down_out = anyio.create_memory_object_stream[str](100)
        self._ends.append(MemoryStream(up_out, down_in))
        self.accepted.send_nowait(self._ends[-1])
        ours = MemoryStream(down_out, up_in)
        try:
            yield ours
        finally:
            await ours.close()

    async def hello(self) -> GatewayHello:
        """Wait for a connection and its first message."""
        self.stream = await self.newest.receive()
        message = await self.next()
        assert isinstance(message, GatewayHello)
        return message

    async def say(self, message: Value) -> None:
        assert self.stream is not None
        await self.stream.send(encode(message))

    async def next(self) -> GatewayMessage | Unknown:
        assert self.stream is not None
        return decode_gateway(await self.stream.receive())

    async def load(self, **fields: Any) -> GatewayLoad:
        """The next load that has these values."""
        while True:
            message = await self.next()
            if isinstance(message, GatewayLoad) and all(
                getattr(message, name) == value for name, value in fields.items()
            ):
                return message

    async def usage(self) -> Usage:
        while not isinstance(message := await self.next(), Usage):
            pass
        return message

    async def drop(self) -> None:
        assert self.stream is not None
        await self.stream.close()

    def close(self) -> None:
        self.accepted.close()
        self.newest.close()
        for end in self._ends:
            end.inbox.close()
            end.outbox.close()


@pytest.fixture
async def uplink(anyio_backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """A running uplink, and the control plane that it speaks to as `.net`."""
    monkeypatch.setattr(uplink_module, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(uplink_module, "LOAD_EVERY", 0.05)
    clock, rand = SystemClock(), SystemRand()
    net: Any = ControlPlane()
    running = Uplink(
        url="http://cp:1",
        instance="i",
        version="0",
        token=lambda: "secret",
        net=net,
        state=GatewayState(),
        journal=Journal(tmp_path, clock, rand),
        clock=clock,
        rand=rand,
    )
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running.run)
            yield running
            tasks.cancel_scope.cancel()
    net.close()
    running.journal.close()


def row(name: str) -> UsageRow:
    return UsageRow(
        id=name, key="k", model_asked="m", model="m", path="/", duration=1.0, status=200, outcome="ok"
    )


async def test_it_connects_with_its_credential_and_says_what_it_has_heard(uplink: Any) -> None:
    hello = await uplink.net.hello()
    assert uplink.net.urls == ["ws://cp:1/internal/v1/gateway"]
    assert uplink.net.tokens == ["secret"]
    assert (hello.instance, hello.cluster, hello.heard.number) == ("i", None, 0)


async def test_secrets_keys_and_table_make_the_gateway_ready(uplink: Any) -> None:
    await uplink.net.hello()
    for message in (
        WELCOME,
        Secrets(engine_keys={1: SecretStr("ab")}, pepper=SecretStr("cd")),
        Keys(seq=1, changed=(ApiKey(id="k", hash="h"),)),
    ):
        await uplink.net.say(message)
    assert uplink.state.not_ready() is not None
    await uplink.net.say(TABLE)
    await uplink.net.load(heard=TABLE.epoch, table_version=7)
    assert uplink.state.not_ready() is None


async def test_load_is_sent_again_and_again_and_counts_requests(uplink: Any) -> None:
    await uplink.net.hello()
    await uplink.net.say(WELCOME)
    await uplink.net.load(in_flight={})
    await uplink.net.load(in_flight={})
    with uplink.state.hold("r-a", "q1"), uplink.state.hold("r-a", "q2"):
        await uplink.net.load(in_flight={"r-a": 2})
    await uplink.net.load(in_flight={})


async def test_a_lost_stream_is_opened_again_and_what_was_learned_stays(uplink: Any) -> None:
    await uplink.net.hello()
    await uplink.net.say(WELCOME)
    await uplink.net.say(TABLE)
    await uplink.net.load(table_version=7)
    uplink.net.refuse = 3
    await uplink.net.drop()
    hello = await uplink.net.hello()
    assert (hello.heard, hello.table_version, hello.cluster) == (TABLE.epoch, 7, "c1")


async def test_another_cluster_is_not_listened_to(uplink: Any) -> None:
    await uplink.net.hello()
    await uplink.net.say(WELCOME)
    await uplink.net.say(TABLE)
    await uplink.net.load(table_version=7)
    await uplink.net.drop()
    await uplink.net.hello()
    foreign = (WELCOME.model_copy(update={"cluster": "c2"}), TABLE.model_copy(update={"version": 8}))
    for message in foreign:  # both are there before the first is read: nothing may be read on
        uplink.net.stream.outbox.send_nowait(encode(message))
    hello = await uplink.net.hello()
    assert (hello.table_version, hello.cluster) == (7, "c1")


@pytest.mark.parametrize(
    "answer", (Refused(code="wire", message="too old", fix="upgrade"), Bye(reason="restarting"), TABLE)
)
async def test_without_a_welcome_nothing_is_taken_and_it_tries_again(
    uplink: Any, answer: Value, caplog: pytest.LogCaptureFixture
) -> None:
    await uplink.net.hello()
    await uplink.net.say(answer)
    hello = await uplink.net.hello()
    assert hello.table_version == 0
    assert "no stream to the control plane" in caplog.text


async def test_a_message_of_a_newer_control_plane_is_passed_over(uplink: Any) -> None:
    await uplink.net.hello()
    await uplink.net.say(WELCOME)
    assert uplink.net.stream is not None
    await uplink.net.stream.send('{"type":"lease","blocks":3}')
    await uplink.net.say(TABLE)
    await uplink.net.load(table_version=7)


async def test_a_revoked_key_is_forgotten_and_a_changed_one_replaced(uplink: Any) -> None:
    await uplink.net.hello()
    await uplink.net.say(WELCOME)
    await uplink.net.say(Secrets(pepper=SecretStr("cd")))
    digest = key_hash(bytes.fromhex("cd"), "a")
    await uplink.net.say(Keys(seq=1, changed=(ApiKey(id="a", hash=digest), ApiKey(id="b", hash="hb"))))
    await uplink.net.say(TABLE)
    await uplink.net.load(table_version=7)
    assert uplink.state.keyring.find("a", 0.0).id == "a"
    await uplink.net.say(Keys(seq=2, full=False, revoked=("a",)))
    await uplink.net.say(TABLE.model_copy(update={"version": 8}))
    await uplink.net.load(table_version=8)
    assert uplink.state.keyring.find("a", 0.0) is None


async def test_usage_goes_up_and_leaves_the_disk_when_it_is_stored(uplink: Any, tmp_path: Path) -> None:
    uplink.journal.append(row("q1"))
    await uplink.net.hello()
    await uplink.net.say(WELCOME)
    batch = await uplink.net.usage()
    assert [each.id for each in batch.rows] == ["q1"]
    assert len(list(tmp_path.iterdir())) == 1
    await uplink.net.say(UsageStored(batch=batch.batch))
    while list(tmp_path.iterdir()):
        await anyio.sleep(0.01)


async def test_one_batch_is_under_way_at_a_time(uplink: Any) -> None:
    uplink.journal.append(row("q1"))
    await uplink.net.hello()
    await uplink.net.say(WELCOME)
    first = await uplink.net.usage()
    uplink.journal.append(row("q2"))
    await uplink.net.load()
    assert isinstance(await uplink.net.next(), GatewayLoad)
    await uplink.net.say(UsageStored(batch=first.batch))
    assert [each.id for each in (await uplink.net.usage()).rows] == ["q2"]


async def test_an_unanswered_batch_is_sent_again_on_the_next_stream(uplink: Any) -> None:
    uplink.journal.append(row("q1"))
    await uplink.net.hello()
    await uplink.net.say(WELCOME)
    first = await uplink.net.usage()
    await uplink.net.drop()
    await uplink.net.hello()
    await uplink.net.say(WELCOME)
    again = await uplink.net.usage()
    assert (again.batch, [each.id for each in again.rows]) == (first.batch, ["q1"])


async def test_a_batch_that_the_store_did_not_take_is_sent_again_on_the_same_stream(
    uplink: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uplink_module, "ANSWER_WITHIN", 0.1)
    uplink.journal.append(row("q1"))
    await uplink.net.hello()
    await uplink.net.say(WELCOME)
    first = await uplink.net.usage()
    assert (await uplink.net.usage()).batch == first.batch
