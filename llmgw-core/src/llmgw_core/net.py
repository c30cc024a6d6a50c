"""The real network: streams over WebSockets, bounded HTTP requests (port Net over httpx2)."""

from __future__ import annotations

import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import anyio
import httpx2
from httpx2.websockets import (
    AsyncWebSocketSession,
    HTTPXWSException,
    WebSocketDisconnect,
    WebSocketInvalidTypeReceived,
    WebSocketUpgradeError,
)
from starlette.websockets import WebSocket
from starlette.websockets import WebSocketDisconnect as ServerSideDisconnect
from wsproto.utilities import ProtocolError

from llmgw_core.ports import HttpReply, Stream
from llmgw_core.spec import MAX_MESSAGE_BYTES, StreamEnded, StreamError, StreamRefused, WireError

MAX_REPLY_BYTES = 64 * 1024
"""How much of the answer to a request is kept."""
SEND_TIMEOUT = 10.0
"""Seconds in which the other side must have taken a message, or the stream is given up."""
HANDSHAKE_TIMEOUT = 10.0
CLOSE_TIMEOUT = 2.0
PING_EVERY = 20.0
_REFUSED_BY_STATUS = frozenset({401, 403})
_MAX_CLOSE_REASON = 123  # a close frame has no room for more bytes (RFC 6455, section 5.5)


class _SocketStream(ABC):
    """What both ends of a WebSocket share: one writer, a deadline per send, one reason for the end."""

    def __init__(self, send_timeout: float) -> None:
        self._send_timeout = send_timeout
        self._one_writer = anyio.Lock()
        self._reading: anyio.CancelScope | None = None
        self._end: str | None = None

    async def send(self, text: str) -> None:
        """Send one message.

        Raises StreamEnded when the stream is gone or does not take it in time, WireError when the message
        is over the limit: sent anyway, it would break the connection, and again after each reconnection.
        """
        size = len(text.encode())
        if size > MAX_MESSAGE_BYTES:
            raise WireError(f"a message of {size} bytes is over the limit of {MAX_MESSAGE_BYTES}")
        async with self._one_writer:
            self._raise_if_ended()
            try:
                with anyio.fail_after(self._send_timeout):
                    await self._write(text)
            except TimeoutError:
                await self._abort()
                raise self._ended(f"a message was not taken within {self._send_timeout:g} s") from None

    async def receive(self) -> str:
        """The next message. Raises StreamEnded with the reason when there will be none."""
        self._raise_if_ended()
        with anyio.CancelScope() as self._reading:
            return await self._read()
        # Only `close` cancels this scope: the libraries do not wake a reader when their own side closes.
        raise self._ended("closed on this side")

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """End it, with a WebSocket close code and a reason for the other side."""
        if self._end is not None:
            return
        self._ended("closed on this side")
        if self._reading is not None:
            self._reading.cancel()
        # The last word is worth seconds, not more: a stopped peer never makes room for it.
        with anyio.move_on_after(CLOSE_TIMEOUT, shield=True) as limit:
            await self._shut(code, reason.encode()[:_MAX_CLOSE_REASON].decode(errors="ignore"))
        if limit.cancelled_caught:
            await self._abort()

    def _raise_if_ended(self) -> None:
        if self._end is not None:
            raise StreamEnded(self._end)

    def _ended(self, reason: str) -> StreamEnded:
        """Remember why it ended; the first reason is the true one."""
        self._end = self._end or reason
        return StreamEnded(self._end)

    @abstractmethod
    async def _write(self, text: str) -> None: ...

    @abstractmethod
    async def _read(self) -> str: ...

    @abstractmethod
    async def _shut(self, code: int, reason: str) -> None: ...

    @abstractmethod
    async def _abort(self) -> None: ...


class StarletteStream(_SocketStream):
    """The server's end of a stream: wraps an accepted WebSocket.

    uvicorn must be told MAX_MESSAGE_BYTES as its `ws_max_size`.
    """

    def __init__(self, websocket: WebSocket, *, send_timeout: float = SEND_TIMEOUT) -> None:
        super().__init__(send_timeout)
        self._websocket = websocket

    async def _write(self, text: str) -> None:
        try:
            await self._websocket.send_text(text)
        except (ServerSideDisconnect, RuntimeError):
            raise self._ended("the other side is gone") from None

    async def _read(self) -> str:
        try:
            message = await self._websocket.receive()
        except RuntimeError:
            raise self._ended("the other side is gone") from None
        if message["type"] == "websocket.disconnect":
            raise self._ended(_closed_by_peer(message.get("code", 1005), message.get("reason") or ""))
        text = message.get("text")
        if text is None:
            raise self._ended("the other side sent a binary message")
        return str(text)

    async def _shut(self, code: int, reason: str) -> None:
        with suppress(ServerSideDisconnect, RuntimeError):
            await self._websocket.close(code, reason)

    async def _abort(self) -> None:
        # Nothing to do: uvicorn drops the connection when the endpoint returns.
        return


class _ClientStream(_SocketStream):
    """The client's end of a stream, over an httpx2 session that `HttpNet.connect` enters and leaves."""

    def __init__(self, session: AsyncWebSocketSession, send_timeout: float) -> None:
        super().__init__(send_timeout)
        self._session = session

    async def _write(self, text: str) -> None:
        try:
            await self._session.send_text(text)
        except (HTTPXWSException, ProtocolError) as error:
            raise self._ended(_reason(error)) from None

    async def _read(self) -> str:
        try:
            return await self._session.receive_text()
        except (HTTPXWSException, ProtocolError) as error:
            raise self._ended(_reason(error)) from None

    async def _shut(self, code: int, reason: str) -> None:
        with suppress(ProtocolError):
            await self._session.close(code, reason)

    async def _abort(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._session.stream.aclose()

    async def leave(self) -> None:
        """Close, and drop the connection without more words if the other side does not take them.

        Otherwise leaving the session would wait for ever to write its close frame, shielded.
        """
        await self.close()
        await self._abort()


class HttpNet:
    """Port Net over httpx2: no proxies from the environment, no redirects, bounded in size and time."""

    def __init__(self, *, ping_every: float = PING_EVERY, send_timeout: float = SEND_TIMEOUT) -> None:
        self._ping_every = ping_every
        self._send_timeout = send_timeout
        # Made once: loading the certificates takes 40 ms of a blocked loop.
        self._tls = ssl.create_default_context()

    @asynccontextmanager
    async def connect(self, url: str, token: str) -> AsyncIterator[Stream]:
        """Open a stream with a bearer token; leaving the block closes it. See the port."""
        if not token.isascii():
            fix = "write the file of the token anew"
            raise StreamRefused("unauthorized", "the token has characters that no token has", fix=fix)
        failure: Exception | None = None
        try:
            async with self._client(HANDSHAKE_TIMEOUT) as http, self._session(http, url, token) as session:
                stream = _ClientStream(session, self._send_timeout)
                try:
                    yield stream
                except Exception as error:
                    # Carried around the session, whose task group would wrap it into an ExceptionGroup.
                    failure = error
                finally:
                    await stream.leave()
        except (httpx2.HTTPError, httpx2.InvalidURL, HTTPXWSException, OSError, ExceptionGroup) as error:
            raise failure or _stream_error(error, url) from None
        if failure is not None:
            raise failure

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: str | None, timeout: float
    ) -> HttpReply:
        """One HTTP request of at most `timeout` seconds and 64 KiB of answer. Raises OSError."""
        try:
            with anyio.fail_after(timeout):
                return await self._request(method, url, headers, body, timeout)
        except TimeoutError:
            raise TimeoutError(f"no answer from {url} within {timeout:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise OSError(f"{url}: {_reason(error)}") from None

    async def listening(self, host: str, port: int) -> bool:
        """Whether something accepts connections there (a TCP connect of at most a second)."""
        try:
            with anyio.fail_after(1.0):
                stream = await anyio.connect_tcp(host, port)
                await stream.aclose()
        except OSError:
            return False
        return True

    async def can_bind(self, host: str, port: int) -> bool:
        """Whether the port could be bound here now."""
        try:
            found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, _, _, _, address = found[0]
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                # As engines do: a port whose last connections are in TIME_WAIT counts as free.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
        except OSError:
            return False
        return True

    def _client(self, timeout: float) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(verify=self._tls, trust_env=False, follow_redirects=False, timeout=timeout)

    def _session(
        self, http: httpx2.AsyncClient, url: str, token: str
    ) -> AbstractAsyncContextManager[AsyncWebSocketSession]:
        return http.websocket(
            url,
            headers={"Authorization": f"Bearer {token}"},
            max_message_size_bytes=MAX_MESSAGE_BYTES,
            keepalive_ping_interval_seconds=self._ping_every,
            keepalive_ping_timeout_seconds=self._ping_every,
        )

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: str | None, timeout: float
    ) -> HttpReply:
        content = None if body is None else body.encode()
        # Unpacked by nobody: 64 KiB of gzip may stand for 64 MiB.
        asked = {**headers, "Accept-Encoding": "identity"}
        async with (
            self._client(timeout) as http,
            http.stream(method, url, headers=asked, content=content) as response,
        ):
            kept = bytearray()
            async for chunk in response.aiter_raw():
                kept += chunk
                if len(kept) >= MAX_REPLY_BYTES:
                    break
            text = bytes(kept[:MAX_REPLY_BYTES]).decode(errors="replace")
            return HttpReply(status=response.status_code, body=text)


def _stream_error(error: Exception, url: str) -> StreamError:
    """What it means for the caller that the connection could not be made, or broke under the block."""
    if isinstance(error, WebSocketUpgradeError):
        return _refusal(error.response.status_code, url)
    return StreamEnded(_reason(error), where=url)


def _refusal(status: int, url: str) -> StreamRefused:
    fix = "check the address, and that the token is the one of this control plane"
    if status in _REFUSED_BY_STATUS:
        return StreamRefused("unauthorized", f"{url} answered {status}", fix=fix)
    return StreamRefused(f"http_{status}", f"{url} answered {status} instead of opening a stream", fix=fix)


def _reason(error: BaseException) -> str:
    """Why a connection ended, in words. The libraries' own texts are often empty."""
    match error:
        case BaseExceptionGroup():
            return "; ".join(dict.fromkeys(_reason(inner) for inner in error.exceptions))
        case WebSocketDisconnect(code=code, reason=reason):
            return _closed_by_peer(code, reason)
        case WebSocketInvalidTypeReceived():
            return "the other side sent a binary message"
        case HTTPXWSException():
            return "the connection broke"
        case ProtocolError():
            return f"the connection is closed or broke the protocol: {error}"
        case _:
            return str(error) or type(error).__name__


def _closed_by_peer(code: int, reason: str) -> str:
    return f"closed by the other side ({code}{': ' + reason if reason else ''})"
