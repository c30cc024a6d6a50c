"""How the gateway speaks to engines: a Protocol, and the one over httpx2."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import httpx2

_MAX_CONNECTIONS = 4096
_KEEPALIVE_SECONDS = 4.0
"""Shorter than uvicorn's and llama.cpp's five seconds: an engine should not be the one that closes."""


@dataclass(frozen=True)
class UpstreamRequest:
    """A POST to an engine; `headers` is everything that it gets besides framing."""

    url: str
    headers: Mapping[str, str]
    body: bytes


class UpstreamFailed(Exception):
    """Raised when an engine cannot be reached, or its connection breaks. The text is for logs.

    `stale`: an idle connection turned out to be closed when it was used again; the engine may be well.
    """

    def __init__(self, reason: str, *, stale: bool = False) -> None:
        super().__init__(reason)
        self.stale = stale


class UpstreamReply(Protocol):
    """An answer whose head has arrived."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def content_type(self) -> str:
        """The media type in lower case, without parameters; empty when there is none."""

    def chunks(self) -> AsyncGenerator[bytes]:
        """The body as it arrives. Raises UpstreamFailed when it breaks off."""

    async def close(self) -> None:
        """Give the connection back, or cut it if the body is not read to its end: the engine stops then."""


class Upstream(Protocol):
    """Sends requests to engines."""

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """Send it and wait for the head of the answer. Raises UpstreamFailed."""


class Httpx2Upstream:
    """Upstream over a pool of httpx2: no proxies from the environment, no redirects, no cookies."""

    def __init__(self, connect_timeout: float) -> None:
        self._client = httpx2.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            # Only connecting is timed here: the phases of an answer are timed by whoever reads it.
            timeout=httpx2.Timeout(None, connect=connect_timeout),
            limits=httpx2.Limits(
                max_connections=_MAX_CONNECTIONS,
                max_keepalive_connections=_MAX_CONNECTIONS,
                keepalive_expiry=_KEEPALIVE_SECONDS,
            ),
        )
        # What httpx2 would add of its own (accept-encoding above all: a compressed stream is a buffered one).
        self._client.headers.clear()

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """Send it and wait for the head of the answer. Raises UpstreamFailed."""
        fresh = _Fresh()
        prepared = self._client.build_request(
            "POST",
            request.url,
            headers=dict(request.headers),
            content=request.body,
            extensions={"trace": fresh.note},
        )
        try:
            response = await self._client.send(prepared, stream=True)
        except httpx2.TransportError as error:
            raise UpstreamFailed(_reason(error), stale=not fresh.connected and _is_cut(error)) from None
        finally:
            # Kept, an engine's cookies would travel from one client's request to another's.
            self._client.cookies.clear()
        return _Httpx2Reply(response)

    async def aclose(self) -> None:
        """Close the pool."""
        with anyio.CancelScope(shield=True):
            await self._client.aclose()


class _Fresh:
    """Learns from the client's trace whether a request opened a connection of its own."""

    def __init__(self) -> None:
        self.connected = False

    async def note(self, event: str, _info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self.connected = True


class _Httpx2Reply:
    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status_code

    @property
    def content_type(self) -> str:
        return str(self._response.headers.get("content-type", "")).partition(";")[0].strip().lower()

    async def chunks(self) -> AsyncGenerator[bytes]:
        try:
            async for chunk in self._response.aiter_raw():
                yield chunk
        except httpx2.TransportError as error:
            raise UpstreamFailed(_reason(error)) from None

    async def close(self) -> None:
        with anyio.CancelScope(shield=True), suppress(httpx2.TransportError):
            await self._response.aclose()


def _is_cut(error: httpx2.TransportError) -> bool:
    return isinstance(error, httpx2.RemoteProtocolError | httpx2.NetworkError) and not isinstance(
        error, httpx2.ConnectError
    )


def _reason(error: httpx2.TransportError) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
