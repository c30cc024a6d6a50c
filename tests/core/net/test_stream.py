"""Streams between real processes and sockets: every end has a reason, and nothing hangs."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from llmgw_core.net import HttpNet, StarletteStream
from llmgw_core.ports import Stream
from llmgw_core.spec import MAX_MESSAGE_BYTES, StreamEnded, StreamRefused, WireError
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

pytestmark = pytest.mark.anyio
DEADLINE = 60.0
Endpoint = Callable[[StarletteStream], Awaitable[None]]


def app_with(endpoint: Endpoint, **options: float) -> Starlette:
    async def accept(websocket: WebSocket) -> None:
        await websocket.accept()
        await endpoint(StarletteStream(websocket, **options))

    return Starlette(routes=[WebSocketRoute("/stream", accept)])


async def echo(stream: StarletteStream) -> None:
    try:
        while True:
            await stream.send(await stream.receive())
    except StreamEnded:
        return


async def pour(stream: Stream) -> None:
    """Send until the stream has ended."""
    while True:
        await stream.send("x" * 1024 * 1024)


def url(port: int) -> str:
    return f"ws://127.0.0.1:{port}/stream"


async def test_a_message_of_a_mebibyte_travels_each_way(serve: Any) -> None:
    text = "ä" * (512 * 1024)
    with anyio.fail_after(DEADLINE):
        async with serve(app_with(echo)) as port, HttpNet().connect(url(port), "t") as stream:
            await stream.send(text)
            assert await stream.receive() == text


async def test_a_message_of_the_largest_size_travels_each_way(serve: Any) -> None:
    text = "x" * MAX_MESSAGE_BYTES
    with anyio.fail_after(DEADLINE):
        async with serve(app_with(echo)) as port, HttpNet().connect(url(port), "t") as stream:
            await stream.send(text)
            assert await stream.receive() == text


async def test_a_message_over_the_limit_is_not_sent_and_the_stream_goes_on(serve: Any) -> None:
    with anyio.fail_after(DEADLINE):
        async with serve(app_with(echo)) as port, HttpNet().connect(url(port), "t") as stream:
            with pytest.raises(WireError, match="over the limit"):
                await stream.send("ä" * (MAX_MESSAGE_BYTES // 2 + 1))
            await stream.send("short")
            assert await stream.receive() == "short"


async def test_a_peer_that_sends_more_than_the_limit_is_cut_off(serve: Any) -> None:
    async def flood(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text("x" * (MAX_MESSAGE_BYTES + 1))
        await anyio.sleep_forever()

    app = Starlette(routes=[WebSocketRoute("/stream", flood)])
    with anyio.fail_after(DEADLINE):
        async with serve(app) as port, HttpNet().connect(url(port), "t") as stream:
            with pytest.raises(StreamEnded, match="1009: Message too big"):
                await stream.receive()


async def test_the_token_travels_as_bearer_and_never_by_url(serve: Any) -> None:
    seen: list[tuple[str, str]] = []

    async def look(websocket: WebSocket) -> None:
        seen.append((websocket.headers["authorization"], str(websocket.url)))
        await websocket.accept()
        await StarletteStream(websocket).send("hello")

    app = Starlette(routes=[WebSocketRoute("/stream", look)])
    with anyio.fail_after(DEADLINE):
        async with serve(app) as port, HttpNet().connect(url(port), "secret") as stream:
            assert await stream.receive() == "hello"
    assert seen == [("Bearer secret", url(port))]


async def test_many_senders_share_a_stream(serve: Any) -> None:
    sent = {str(number) * 50_000 for number in range(10)}
    with anyio.fail_after(DEADLINE):
        async with (
            serve(app_with(echo)) as port,
            HttpNet().connect(url(port), "t") as stream,
            anyio.create_task_group() as tasks,
        ):
            for text in sent:
                tasks.start_soon(stream.send, text)
            received = {await stream.receive() for _ in sent}
    assert received == sent


async def test_a_refusal_arrives_before_the_end_and_with_its_reason(serve: Any) -> None:
    async def refuse(stream: StarletteStream) -> None:
        await stream.send("refused: second agent")
        await stream.close(4409, "another agent of this node is connected")

    with anyio.fail_after(DEADLINE):
        async with serve(app_with(refuse)) as port, HttpNet().connect(url(port), "t") as stream:
            assert await stream.receive() == "refused: second agent"
            with pytest.raises(StreamEnded, match="4409: another agent of this node is connected"):
                await stream.receive()
            with pytest.raises(StreamEnded, match="4409"):
                await stream.send("still there?")
            with pytest.raises(StreamEnded, match="4409"):
                await stream.receive()


async def test_a_long_reason_is_cut_to_what_a_close_frame_holds(serve: Any) -> None:
    async def refuse(stream: StarletteStream) -> None:
        await stream.close(4400, "ä" * 100)

    with anyio.fail_after(DEADLINE):
        async with serve(app_with(refuse)) as port, HttpNet().connect(url(port), "t") as stream:
            with pytest.raises(StreamEnded, match="4400: " + "ä" * 61):
                await stream.receive()


async def test_an_unknown_path_is_a_refusal(serve: Any, nothing_there: Starlette) -> None:
    with anyio.fail_after(DEADLINE):
        async with serve(nothing_there) as port:
            with pytest.raises(StreamRefused, match="answered 403") as refused:
                async with HttpNet().connect(url(port), "t"):
                    pytest.fail("the block must not be entered")
    assert refused.value.code == "unauthorized"


async def test_a_server_that_speaks_no_websocket_is_a_refusal(serve: Any) -> None:
    with anyio.fail_after(DEADLINE):
        async with serve(Starlette()) as port:
            with pytest.raises(StreamRefused) as refused:
                async with HttpNet().connect(f"http://127.0.0.1:{port}/stream", "t"):
                    pytest.fail("the block must not be entered")
    assert refused.value.fix


async def test_nobody_there_is_an_end_that_names_the_address(free_port: int) -> None:
    with anyio.fail_after(DEADLINE):
        with pytest.raises(StreamEnded) as ended:
            async with HttpNet().connect(url(free_port), "t"):
                pytest.fail("the block must not be entered")
    assert str(free_port) in str(ended.value)


@pytest.mark.parametrize(
    "bad", ("ws://", "nonsense", "ftp://127.0.0.1/x", "ws://[::bad/x", "ws://127.0.0.1:99999/")
)
async def test_an_address_that_is_none_is_an_end_with_a_reason(bad: str) -> None:
    with anyio.fail_after(DEADLINE):
        with pytest.raises(StreamEnded) as ended:
            async with HttpNet().connect(bad, "t"):
                pytest.fail("the block must not be entered")
    assert ended.value.message


@pytest.mark.parametrize("token", ("café", "\ufffd"))
async def test_a_token_that_no_header_can_carry_is_a_refusal_and_does_not_show_it(
    token: str, free_port: int
) -> None:
    with pytest.raises(StreamRefused) as caught:
        async with HttpNet().connect(f"ws://127.0.0.1:{free_port}/", token):
            pytest.fail("it was connected")
    assert token not in str(caught.value)


async def test_the_client_sees_a_killed_server(spawn_peer: Callable[..., Any]) -> None:
    with anyio.fail_after(DEADLINE):
        process, port = spawn_peer("server")
        async with HttpNet().connect(url(port), "t") as stream:
            await stream.send("hello")
            assert await stream.receive() == "hello"
            process.kill()
            with pytest.raises(StreamEnded):
                await stream.receive()


async def test_a_send_to_a_killed_server_ends_the_stream(spawn_peer: Callable[..., Any]) -> None:
    with anyio.fail_after(DEADLINE):
        process, port = spawn_peer("server")
        async with HttpNet().connect(url(port), "t") as stream:
            await stream.send("hello")
            assert await stream.receive() == "hello"
            process.kill()
            process.wait()
            with pytest.raises(StreamEnded):
                await pour(stream)


async def test_the_server_sees_a_killed_client(serve: Any, spawn_peer: Callable[..., Any]) -> None:
    ended = anyio.Event()
    reasons: list[str] = []
    greeted = anyio.Event()

    async def listen(stream: StarletteStream) -> None:
        assert await stream.receive() == "hello"
        greeted.set()
        try:
            await stream.receive()
        except StreamEnded as end:
            reasons.append(end.message)
            with pytest.raises(StreamEnded):
                await stream.send("anybody?")
            ended.set()

    with anyio.fail_after(DEADLINE):
        async with serve(app_with(listen)) as port:
            process, _ = spawn_peer("client", url(port))
            await greeted.wait()
            process.kill()
            await ended.wait()
    assert "closed by the other side" in reasons[0]


async def test_a_stopped_server_is_seen_by_the_ping(spawn_peer: Callable[..., Any]) -> None:
    with anyio.fail_after(DEADLINE):
        process, port = spawn_peer("server")
        async with HttpNet(ping_every=0.5).connect(url(port), "t") as stream:
            os.kill(process.pid, signal.SIGSTOP)
            with pytest.raises(StreamEnded):
                await stream.receive()


async def test_a_reader_that_stands_still_costs_a_deadline_and_not_the_sender(
    spawn_peer: Callable[..., Any],
) -> None:
    with anyio.fail_after(DEADLINE):
        process, port = spawn_peer("server")
        async with HttpNet(send_timeout=0.5).connect(url(port), "t") as stream:
            os.kill(process.pid, signal.SIGSTOP)
            with pytest.raises(StreamEnded, match="not taken within"):
                await pour(stream)


async def test_a_client_that_stands_still_costs_the_server_a_deadline(
    serve: Any, spawn_peer: Callable[..., Any]
) -> None:
    ended = anyio.Event()

    async def pour_after_hello(stream: StarletteStream) -> None:
        await stream.receive()
        with pytest.raises(StreamEnded, match="not taken within"):
            await pour(stream)
        await stream.close()
        ended.set()

    with anyio.fail_after(DEADLINE):
        async with serve(app_with(pour_after_hello, send_timeout=0.5)) as port:
            silent, _ = spawn_peer("client", url(port))
            await ended.wait()
            silent.kill()


async def test_cancelling_a_receive_leaves_nothing_behind(serve: Any) -> None:
    async def connect_and_wait(port: int, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with HttpNet().connect(url(port), "t") as stream:
            await stream.send("hello")
            assert await stream.receive() == "hello"
            task_status.started()
            await stream.receive()

    closed = anyio.Event()

    async def echo_until_closed(stream: StarletteStream) -> None:
        await echo(stream)
        closed.set()

    with anyio.fail_after(DEADLINE):
        async with serve(app_with(echo_until_closed)) as port:
            async with anyio.create_task_group() as tasks:
                await tasks.start(connect_and_wait, port)
                tasks.cancel_scope.cancel()
            await closed.wait()


async def test_a_cancelled_client_of_a_stopped_server_is_gone_at_once(spawn_peer: Callable[..., Any]) -> None:
    with anyio.fail_after(DEADLINE):
        process, port = spawn_peer("server")
        with anyio.move_on_after(0.5) as patience:
            async with HttpNet(send_timeout=1000).connect(url(port), "t") as stream:
                os.kill(process.pid, signal.SIGSTOP)
                await pour(stream)
    assert patience.cancelled_caught


async def test_closing_wakes_a_reader_and_may_happen_twice(serve: Any) -> None:
    woken = anyio.Event()

    async with serve(app_with(echo)) as port, HttpNet().connect(url(port), "t") as stream:

        async def read() -> None:
            with pytest.raises(StreamEnded, match="closed on this side"):
                await stream.receive()
            woken.set()

        with anyio.fail_after(DEADLINE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read)
                await anyio.wait_all_tasks_blocked()
                await stream.close()
                await stream.close()
                await woken.wait()


async def test_closing_the_servers_end_wakes_its_reader(serve: Any) -> None:
    async def close_while_reading(stream: StarletteStream) -> None:
        async def read() -> None:
            with pytest.raises(StreamEnded, match="closed on this side"):
                await stream.receive()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await stream.send("reading")
            await stream.close(4000, "enough")

    with anyio.fail_after(DEADLINE):
        async with serve(app_with(close_while_reading)) as port, HttpNet().connect(url(port), "t") as stream:
            assert await stream.receive() == "reading"
            with pytest.raises(StreamEnded, match="4000: enough"):
                await stream.receive()


async def test_what_the_block_raises_comes_out_bare(serve: Any) -> None:
    with anyio.fail_after(DEADLINE):
        async with serve(app_with(echo)) as port:
            with pytest.raises(KeyError, match="mine"):
                async with HttpNet().connect(url(port), "t"):
                    raise KeyError("mine")


async def test_a_block_may_run_tasks_of_its_own(serve: Any) -> None:
    received: list[str] = []

    with anyio.fail_after(DEADLINE):
        async with serve(app_with(echo)) as port, HttpNet().connect(url(port), "t") as stream:
            with anyio.fail_after(DEADLINE):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(stream.send, "from a task")
                    received.append(await stream.receive())
    assert received == ["from a task"]


async def test_a_binary_message_ends_the_stream_of_either_side(serve: Any) -> None:
    async def binary(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_bytes(b"\x00")

    app = Starlette(routes=[WebSocketRoute("/stream", binary)])
    with anyio.fail_after(DEADLINE):
        async with serve(app) as port, HttpNet().connect(url(port), "t") as stream:
            with pytest.raises(StreamEnded, match="binary"):
                await stream.receive()


async def test_a_redirect_is_not_followed(serve: Any) -> None:
    async def redirect(scope: Scope, receive: Receive, send: Send) -> None:
        answer = PlainTextResponse("", status_code=307, headers={"location": "/stream"})
        websocket = WebSocket(scope, receive, send)
        await websocket.send_denial_response(answer)

    with anyio.fail_after(DEADLINE):
        async with serve(redirect) as port:
            with pytest.raises(StreamRefused, match="307"):
                async with HttpNet().connect(url(port), "t"):
                    pytest.fail("the block must not be entered")


async def test_proxies_of_the_environment_are_not_asked(
    serve: Any, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port}")
    with anyio.fail_after(DEADLINE):
        async with serve(app_with(echo)) as port, HttpNet().connect(url(port), "t") as stream:
            await stream.send("direct")
            assert await stream.receive() == "direct"
