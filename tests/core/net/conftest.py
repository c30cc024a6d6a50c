"""A real uvicorn around one WebSocket endpoint, in the test's own event loop."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest
import uvicorn
from llmgw_core.spec import MAX_MESSAGE_BYTES
from starlette.applications import Starlette
from starlette.types import ASGIApp

DEADLINE = 60.0
Serve = Callable[[ASGIApp], AbstractAsyncContextManager[int]]


class QuietServer(uvicorn.Server):
    """Leaves the signals of the test process alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            app,
            ws="websockets-sansio",
            ws_max_size=MAX_MESSAGE_BYTES,
            lifespan="off",
            log_level="critical",
            timeout_graceful_shutdown=1,
        )
        server = QuietServer(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            try:
                yield listener.getsockname()[1]
            finally:
                server.should_exit = True


@pytest.fixture
def serve() -> Serve:
    """`async with serve(app) as port:` runs an ASGI application on a free port."""
    return serving


@pytest.fixture
def nothing_there() -> Starlette:
    """An application without any route."""
    return Starlette()


@pytest.fixture
def free_port() -> int:
    """A port where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture
def spawn_peer() -> Iterator[Callable[..., tuple[subprocess.Popen[str], int]]]:
    """Starts `peer.py` and returns its process and port; what is left of it is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def spawn(*arguments: str) -> tuple[subprocess.Popen[str], int]:
        argv = [sys.executable, str(Path(__file__).with_name("peer.py")), *arguments]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return process, int(process.stdout.readline())

    yield spawn
    for process in started:
        process.kill()
        process.communicate()
