"""Bounded HTTP requests and questions about ports."""

from __future__ import annotations

import gzip
import socket
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from llmgw_core.net import MAX_REPLY_BYTES, HttpNet
from llmgw_core.ports import HttpReply
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

pytestmark = pytest.mark.anyio
DEADLINE = 60.0


async def echo(request: Request) -> Response:
    body = (await request.body()).decode()
    return PlainTextResponse(f"{request.method} {request.headers.get('x-key')} {body}", status_code=418)


async def endless(request: Request) -> Response:
    async def chunks() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 10_000
            await anyio.sleep(0)

    return StreamingResponse(chunks())


async def dripping(request: Request) -> Response:
    async def chunks() -> AsyncIterator[bytes]:
        while True:
            yield b"."
            await anyio.sleep(0.01)

    return StreamingResponse(chunks())


async def packed(request: Request) -> Response:
    return Response(gzip.compress(b"x" * 50_000_000), headers={"content-encoding": "gzip"})


async def elsewhere(request: Request) -> Response:
    return RedirectResponse("/echo")


APP = Starlette(
    routes=[
        Route("/echo", echo, methods=["GET", "POST"]),
        Route("/endless", endless),
        Route("/dripping", dripping),
        Route("/packed", packed),
        Route("/elsewhere", elsewhere),
    ]
)


async def get(port: int, path: str, timeout: float = DEADLINE) -> HttpReply:
    url = f"http://127.0.0.1:{port}{path}"
    return await HttpNet().request("GET", url, headers={}, body=None, timeout=timeout)


async def test_method_headers_and_body_arrive_and_the_answer_comes_back(serve: Any) -> None:
    async with serve(APP) as port:
        reply = await HttpNet().request(
            "POST",
            f"http://127.0.0.1:{port}/echo",
            headers={"X-Key": "k"},
            body="grüß dich",
            timeout=DEADLINE,
        )
    assert (reply.status, reply.body) == (418, "POST k grüß dich")


async def test_an_endless_answer_is_cut_at_the_limit(serve: Any) -> None:
    with anyio.fail_after(DEADLINE):
        async with serve(APP) as port:
            reply = await get(port, "/endless")
    assert (reply.status, len(reply.body)) == (200, MAX_REPLY_BYTES)


async def test_a_packed_answer_is_not_unpacked(serve: Any) -> None:
    async with serve(APP) as port:
        reply = await get(port, "/packed")
    assert len(reply.body) <= MAX_REPLY_BYTES


async def test_the_time_limit_holds_for_the_whole_answer(serve: Any) -> None:
    async with serve(APP) as port:
        with pytest.raises(OSError, match=r"no answer from .*/dripping within 0\.3 s"):
            await get(port, "/dripping", timeout=0.3)


async def test_a_redirect_is_an_answer(serve: Any) -> None:
    async with serve(APP) as port:
        reply = await get(port, "/elsewhere")
    assert reply.status == 307


async def test_nobody_there_is_an_os_error_that_names_the_address(free_port: int) -> None:
    with pytest.raises(OSError, match=str(free_port)):
        await get(free_port, "/echo")


async def test_an_address_that_is_none_is_an_os_error() -> None:
    with pytest.raises(OSError, match="nonsense"):
        await HttpNet().request("GET", "nonsense", headers={}, body=None, timeout=DEADLINE)


async def test_listening_tells_whether_a_port_answers(free_port: int) -> None:
    net = HttpNet()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert await net.listening("127.0.0.1", listener.getsockname()[1])
    assert not await net.listening("127.0.0.1", free_port)
    assert not await net.listening("no-such-host.invalid", 80)


async def test_can_bind_tells_a_taken_port_from_a_free_one(free_port: int) -> None:
    net = HttpNet()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert not await net.can_bind("127.0.0.1", listener.getsockname()[1])
    assert await net.can_bind("127.0.0.1", free_port)
    assert not await net.can_bind("no-such-host.invalid", free_port)


async def test_a_port_whose_last_connection_just_ended_counts_as_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = listener.accept()
            accepted.close()  # the side that closes first is left in TIME_WAIT
    assert await HttpNet().can_bind("127.0.0.1", port)
