"""An HTTP server that is one task of its daemon: own socket, own signals, no second boss."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import anyio
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp

from llmgw_core.http_limits import HttpLimits
from llmgw_core.http_protocol import http_with
from llmgw_core.spec.wire import MAX_MESSAGE_BYTES


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers, serving one socket that the daemon bound itself.

    uvicorn must never bind: a busy port would be SystemExit out of the task group. `websockets`: whether
    streams are served. `keep_alive`: seconds that an idle connection stays open. `drain_timeout`: seconds
    that open requests get after `drain`; None for as long as they take. `limits`: what a request may have
    before the application sees it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        websockets: bool = False,
        keep_alive: int = 5,
        drain_timeout: int | None = None,
        limits: HttpLimits | None = None,
    ) -> None:
        protocol: Literal["websockets-sansio", "none"] = "websockets-sansio" if websockets else "none"
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="warning",
                server_header=False,
                # On by default, and believed from loopback: any local process could pose as another.
                proxy_headers=False,
                http=http_with(limits or HttpLimits()),
                ws=protocol,
                ws_max_size=MAX_MESSAGE_BYTES,
                timeout_keep_alive=keep_alive,
                timeout_graceful_shutdown=drain_timeout,
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
