"""The gateway process: `python -m llmgw_core.gateway.worker`, configured by LLMGW_GATEWAY_JSON.

It imports neither the store nor YAML nor plugins (a process with them weighs twice as much), so its
configuration comes as JSON from the process that started it. It is a process of its own: a control plane
that restarts cuts no stream.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from functools import partial
from importlib import metadata
from pathlib import Path

import anyio
from anyio.abc import TaskGroup
from pydantic import ValidationError

from llmgw_core.config import GatewayConfig
from llmgw_core.daemon import StateLock, bind, notify, stop_signals
from llmgw_core.gateway.accounting import Journal
from llmgw_core.gateway.app import Gateway, build_app
from llmgw_core.gateway.proxy import Proxy
from llmgw_core.gateway.state import GatewayState
from llmgw_core.gateway.uplink import Uplink
from llmgw_core.gateway.upstream import Httpx2Upstream
from llmgw_core.logging import set_up
from llmgw_core.net import HttpNet
from llmgw_core.serving import HttpServer
from llmgw_core.spec import ConfigError, LlmgwError
from llmgw_core.system import SystemClock, SystemRand

ENVIRONMENT = "LLMGW_GATEWAY_JSON"
PROGRAM = "llmgw gateway"
KEEP_ALIVE = 75
"""Seconds that an idle connection of a client stays open."""
AFTER_CUT = 2.0
"""Seconds that clients get to receive their error events when the time to drain is over."""
_log = logging.getLogger("llmgw_core.gateway.worker")  # not `__main__`


def main() -> int:
    """Serve until SIGTERM; the exit code."""
    # Keys and models come by the stream, so there is nothing to read again; dying of it would cut streams.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        config = read_config(os.environ)
        set_up(config.log, "gateway")
        with StateLock.take(config.spool_dir / "gateway.lock", PROGRAM), bind(config.listen) as listening:
            logging.getLogger("uvicorn.error").addFilter(_not_broken_off)
            anyio.run(serve, config, listening, backend_options={"use_uvloop": True})
    except LlmgwError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def read_config(environment: Mapping[str, str]) -> GatewayConfig:
    """The configuration from the environment. Raises ConfigError that names what is wrong in it."""
    text = environment.get(ENVIRONMENT)
    if text is None:
        raise ConfigError(f"{ENVIRONMENT} is not set", fix="start it with `llmgw gateway --config FILE`")
    try:
        return GatewayConfig.model_validate_json(text)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
        lines = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems]
        raise ConfigError("; ".join(lines), where=ENVIRONMENT) from None


async def serve(config: GatewayConfig, listening: socket.socket) -> None:
    """Run a gateway on a socket that listens already, until it is told to stop by a signal."""
    clock, rand, state = SystemClock(), SystemRand(), GatewayState()
    journal = Journal(config.spool_dir, clock, rand)
    upstream = Httpx2Upstream(config.limits.connect_timeout)
    app = build_app(Gateway(state, Proxy(state, upstream, journal), clock, rand, config.limits))
    # Longer than clients' pools keep a connection: whoever closes first must not be the one asked.
    server = HttpServer(app, keep_alive=KEEP_ALIVE)
    try:
        async with anyio.create_task_group() as group:
            stopper = _Stopper(group, server, state, config.limits.drain_timeout)
            await group.start(stop_signals, stopper.drain, stopper.at_once)
            uplink = partial(
                Uplink,
                instance=rand.token(),
                version=metadata.version("llmgw-core"),
                token=partial(_read_token, config.token_file),
                net=HttpNet(),
                state=state,
                journal=journal,
                clock=clock,
                rand=rand,
            )
            for url in config.control_planes:
                group.start_soon(uplink(url).run)
            notify("READY=1")
            _log.info("serving", extra={"listen": config.listen})
            await server.run_on(listening)
            group.cancel_scope.cancel()
    finally:
        await upstream.aclose()
        journal.close()


class _Stopper:
    """Ends the process: no new connections, what runs may finish for a while, then it is cut."""

    def __init__(self, group: TaskGroup, server: HttpServer, state: GatewayState, patience: float) -> None:
        self._group = group
        self._server = server
        self._state = state
        self._patience = patience

    def drain(self) -> None:
        """Stop accepting and let requests finish."""
        notify("STOPPING=1")
        self._state.stopping = True
        self._server.drain()
        self._group.start_soon(self._cut_later)

    def at_once(self) -> None:
        """Do not wait any longer."""
        self._group.cancel_scope.cancel()

    async def _cut_later(self) -> None:
        await anyio.sleep(self._patience)
        _log.warning("drain timeout: requests are cut", extra={"seconds": self._patience})
        self._state.cut_all()
        await anyio.sleep(AFTER_CUT)
        self.at_once()


def _read_token(path: Path) -> str:
    return path.read_text(errors="replace").strip()


def _not_broken_off(record: logging.LogRecord) -> bool:
    """Drop uvicorn's word on bodies that we break off on purpose; why is in our own log."""
    return "without completing response" not in record.getMessage()


if __name__ == "__main__":
    sys.exit(main())
