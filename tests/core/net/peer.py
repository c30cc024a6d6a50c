"""The other side of a stream, as a process that a test can kill: an echo server, or a silent client."""

from __future__ import annotations

import socket
import sys

import anyio
import uvicorn
from llmgw_core.net import HttpNet, StarletteStream
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket


async def echo(websocket: WebSocket) -> None:
    await websocket.accept()
    stream = StarletteStream(websocket)
    while True:
        await stream.send(await stream.receive())


async def serve() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    app = Starlette(routes=[WebSocketRoute("/stream", echo)])
    await uvicorn.Server(uvicorn.Config(app, ws="websockets-sansio", log_level="critical")).serve([listener])


async def call(url: str) -> None:
    async with HttpNet().connect(url, "t") as stream:
        await stream.send("hello")
        await anyio.sleep_forever()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["server"]:
            anyio.run(serve)
        case ["client", url]:
            print(0, flush=True)
            anyio.run(call, url)
        case _:
            sys.exit(2)
