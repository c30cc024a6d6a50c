"""How long a client may take to send a request, and what is no matter of its time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio
import pytest
from httpx2 import AsyncClient
from llmgw_core.http_limits import HttpLimits
from llmgw_core.net import HttpNet

if TYPE_CHECKING:
    from .conftest import Serve, Trickle

pytestmark = pytest.mark.anyio
SHORT_HEAD = HttpLimits(head_time=0.3)
SHORT_BODY = HttpLimits(body_window=0.3, body_rate=1_000_000)
GET = b"GET /echo HTTP/1.1\r\nhost: a\r\n\r\n"
POST = b"POST /echo HTTP/1.1\r\nhost: a\r\n"


async def test_a_head_that_never_ends_is_refused_however_steadily_it_comes(
    serve: Serve, trickle: Trickle
) -> None:
    async with serve(SHORT_HEAD) as served, served.client() as slow, anyio.create_task_group() as tasks:
        await slow.send(b"GET /echo HTTP/1.1\r\nx: ")
        tasks.start_soon(trickle, slow, b"a")
        refused = await slow.answer()
        assert refused.error == (408, "request_timeout")
        assert refused.headers["connection"] == "close"
        assert await slow.closed() == b""
        tasks.cancel_scope.cancel()


async def test_the_deadline_of_a_head_holds_for_each_request_of_a_connection(serve: Serve) -> None:
    async with serve(SHORT_HEAD) as served, served.client() as client:
        await client.send(GET + b"GET /ec")
        assert (await client.answer()).status == 200
        assert (await client.answer()).error == (408, "request_timeout")


@pytest.mark.parametrize("framing", (b"content-length: 1000000", b"transfer-encoding: chunked"))
async def test_a_body_that_trickles_is_refused_and_its_application_told(
    serve: Serve, trickle: Trickle, framing: bytes
) -> None:
    async with serve(SHORT_BODY) as served, served.client() as slow, anyio.create_task_group() as tasks:
        await slow.send(POST + framing + b"\r\n\r\n")
        tasks.start_soon(trickle, slow, b"1\r\na\r\n")
        assert (await slow.answer()).error == (408, "request_timeout")
        await served.site.broken_off.wait()
        tasks.cancel_scope.cancel()


async def drip(size: int) -> AsyncIterator[bytes]:
    for _ in range(size):
        yield b"a"
        await anyio.sleep(0.025)


async def test_a_body_that_is_fast_enough_may_take_many_windows(serve: Serve) -> None:
    limits = HttpLimits(body_window=1.0, body_rate=1)
    size = 100
    async with serve(limits) as served, served.client() as client:
        await client.send(POST + b"content-length: %d\r\n\r\n" % size)
        async for byte in drip(size):
            await client.send(byte)
        assert (await client.answer()).json["size"] == size


async def test_an_idle_connection_is_not_cut_by_the_deadline_of_a_head(serve: Serve) -> None:
    """Others reach their deadline twice in the meantime."""
    async with serve(SHORT_HEAD, keep_alive=600) as served, served.client() as fresh, served.client() as used:
        await used.send(GET)
        assert (await used.answer()).status == 200
        for _ in range(2):
            assert (await served.ask(b"GET /ec")).status == 408
        await fresh.send(GET)
        await used.send(GET)
        assert ((await fresh.answer()).status, (await used.answer()).status) == (200, 200)


@pytest.mark.parametrize("nothing", ([], [b"\r\n"], [GET], [b"GET /echo HTTP/1.1\r\n", b"\r\n"]))
async def test_an_idle_connection_is_closed_in_the_end(serve: Serve, nothing: list[bytes]) -> None:
    async with serve(keep_alive=1) as served, served.client() as client:
        await client.send(*nothing)
        if b"".join(nothing).strip():
            assert (await client.answer()).status == 200
        assert await client.closed() == b""


async def test_a_request_that_waits_for_the_answer_of_another_is_not_late(serve: Serve) -> None:
    limits = HttpLimits(head_time=0.3, body_window=0.3, body_rate=1_000_000)
    body = POST + b"content-length: 3\r\n\r\n"
    async with serve(limits) as served, served.client() as one, served.client() as other:
        for client in (one, other):
            await client.send(b"GET /stream HTTP/1.1\r\n\r\n")
        await one.send(b"GET /echo HTT")
        await other.send(body)
        for _ in range(2):
            assert (await served.ask(b"GET /ec")).status == 408
        await one.send(b"P/1.1\r\n\r\n")
        await other.send(b"abc")
        served.site.gate.set()
        for client, size in ((one, 0), (other, 3)):
            assert (await client.answer()).body == b"first last"
            assert (await client.answer()).json["size"] == size


@pytest.mark.parametrize(
    ("field", "first"),
    ((b"", 200_000), (b"expect: 100-continue\r\n", 0)),
    ids=("unread", "not yet asked for"),
)
async def test_a_body_that_its_application_does_not_take_is_not_late(
    serve: Serve, field: bytes, first: int
) -> None:
    limits = HttpLimits(head_time=0.3, body_window=0.3, body_rate=1_000)
    size = 400_000
    async with serve(limits) as served, served.client() as client:
        await client.send(b"POST /late HTTP/1.1\r\n" + field + b"content-length: %d\r\n\r\n" % size)
        await client.send(b"a" * first)
        for _ in range(2):
            assert (await served.ask(b"GET /ec")).status == 408
        served.site.gate.set()
        await client.send(b"a" * (size - first))
        if field:
            assert (await client.answer()).status == 100
        assert (await client.answer()).json["size"] == size


async def test_a_client_that_goes_is_noticed_also_with_requests_in_line(serve: Serve) -> None:
    async with serve() as served:
        async with served.client() as client:
            await client.send(b"GET /stream HTTP/1.1\r\n\r\n" + GET)
            await served.site.streaming.wait()
        await served.site.broken_off.wait()


async def test_a_stream_may_take_longer_than_any_request(serve: Serve) -> None:
    limits = HttpLimits(head_time=0.3, body_window=0.3)
    async with (
        serve(limits, keep_alive=1) as served,
        HttpNet().connect(f"ws://127.0.0.1:{served.port}/socket", "token") as stream,
    ):
        for text in ("one", "two"):
            assert (await served.ask(b"GET /ec")).status == 408
            await stream.send(text)
            assert await stream.receive() == text


async def test_an_ordinary_client_notices_nothing(serve: Serve) -> None:
    async with serve() as served, AsyncClient(base_url=f"http://127.0.0.1:{served.port}") as client:
        for size in (0, 10, 100_000):
            answer = await client.post("/echo", content=b"a" * size)
            assert answer.json()["size"] == size
        assert len(served.server.server_state.connections) == 1
