"""An HTTP server that is one task of its daemon: own socket, own signals, no second boss."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp

from llmgw_core.spec import MAX_MESSAGE_BYTES


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers, serving one socket that the daemon bound itself.

    uvicorn must never bind: a busy port would be SystemExit out of the task group.
    """

    def __init__(self, app: ASGIApp, *, drain_timeout: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="warning",
                server_header=False,
                proxy_headers=False,  # on by default, and it trusts loopback: a client could pose as another
                ws="websockets-sansio",
                ws_max_size=MAX_MESSAGE_BYTES,
                timeout_graceful_shutdown=max(int(drain_timeout), 1),
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the daemon's."""
        yield

    async def run_on(
        self, listening: socket.socket, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until `drain`; started means that connections are accepted."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tell_started, task_status)
            await self.serve(sockets=[listening])
            tasks.cancel_scope.cancel()

    async def _tell_started(self, task_status: TaskStatus[None]) -> None:
        while not self.started:  # noqa: ASYNC110  (uvicorn offers a flag and no event)
            await anyio.sleep(0.005)
        task_status.started()

    def drain(self) -> None:
        """Stop accepting; open requests get the drain time."""
        self.should_exit = True

    def abort(self) -> None:
        """Stop without waiting for open requests."""
        self.should_exit = self.force_exit = True
