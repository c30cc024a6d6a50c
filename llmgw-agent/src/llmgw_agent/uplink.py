"""Keeps a stream open to one control plane: connects, speaks, and connects again."""

from __future__ import annotations

import logging

import anyio
from llmgw_core.config import AgentConfig
from llmgw_core.spec import StreamError, StreamRefused

from llmgw_agent.reporter import NodeLink
from llmgw_agent.session import SILENT_BEATS, Session

log = logging.getLogger(__name__)

_FIRST_DELAY = 0.2
_LONGEST_DELAY = 5.0
_PATH = "/agent/v1/stream"


class Uplink:
    """The way to one control plane, whose URL is `url`."""

    def __init__(self, url: str, config: AgentConfig, link: NodeLink) -> None:
        self._url = stream_url(url)
        self._config = config
        self._link = link
        self._told = ""

    async def run(self) -> None:
        """Until the agent leaves. Losing the control plane changes nothing on the node."""
        delay = _FIRST_DELAY
        while not self._link.leaving.is_set():
            clock = self._link.ports.clock
            begun = clock.monotonic()
            reason, welcomed = await self._connect()
            # One that ends as soon as it is open (a full disk, say) must not become a storm.
            good = welcomed and clock.monotonic() - begun > _LONGEST_DELAY
            delay = _FIRST_DELAY if good else min(2 * delay, _LONGEST_DELAY)
            if self._link.leaving.is_set():
                return
            self._tell(reason)
            with anyio.move_on_after(delay * (0.5 + self._link.ports.rand.uniform())):
                await self._link.leaving.wait()

    async def _connect(self) -> tuple[str, bool]:
        """Speak once; why it ended, and whether the control plane had taken the stream."""
        try:
            token = await self._link.ports.disk.read(str(self._config.token_file))
            if token is None:
                return f"{self._config.token_file} is not there", False
            async with self._link.ports.net.connect(self._url, token.decode().strip()) as stream:
                session = Session(self._link, stream, SILENT_BEATS * self._config.timers.report)
                return await session.run(), True
        except StreamRefused as error:
            return f"refused ({error.code}): {error}", False
        except (StreamError, OSError, UnicodeDecodeError) as error:
            return str(error), False

    def _tell(self, reason: str) -> None:
        """Once for each reason: a control plane that is away for a night should not fill the log."""
        level = logging.DEBUG if reason == self._told else logging.WARNING
        log.log(level, "stream to %s: %s", self._url, reason)
        self._told = reason


def stream_url(control_plane: str) -> str:
    """Where the stream of a control plane `http://host:port` is."""
    return "ws" + control_plane.removeprefix("http").rstrip("/") + _PATH
