"""The answer to one client, and how far it has gone: the first byte decides what is still possible."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import orjson
from starlette.types import Send

from llmgw_core.gateway.openai import ApiError, error_object

LAST_WORDS = 2.0
"""Seconds in which a client must take the event that tells it of a broken stream."""
_JSON = "application/json"


class ClientAnswer:
    """Sends an answer through ASGI. A client that is gone swallows everything without an error."""

    def __init__(self, send: Send, headers: Mapping[str, str] | None = None) -> None:
        self._send = send
        self._headers = dict(headers or {})
        self.begun = False
        """The head has been sent: from here on, errors are told within the body."""

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Headers for whatever is answered; no effect once it has begun."""
        self._headers |= headers

    async def begin(self, status: int, content_type: str, headers: Mapping[str, str] | None = None) -> None:
        """Send the head."""
        self.begun = True
        fields = {"content-type": content_type, **self._headers, **(headers or {})}
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(name.encode(), value.encode("latin-1")) for name, value in fields.items()],
            }
        )

    async def write(self, body: bytes, *, last: bool = False) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})

    async def whole(
        self, status: int, body: bytes, content_type: str = _JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a complete answer."""
        await self.begin(status, content_type, {**(headers or {}), "content-length": str(len(body))})
        await self.write(body, last=True)

    async def error(self, error: ApiError) -> None:
        """Send an error as the whole answer."""
        await self.whole(error.status, error.body(), headers=error.headers)

    async def break_off(self, code: str, message: str) -> None:
        """End a stream truthfully after its first byte: an error event, and no end of the body.

        The caller returns from the ASGI application after it: the missing last chunk then tells even a
        client that skips error events that the answer is not complete.
        """
        event = orjson.dumps(error_object(502, code, message))
        # A client that no longer reads would hold the request open for as long as it likes.
        with anyio.move_on_after(LAST_WORDS):
            await self.write(b"data: " + event + b"\n\n")
