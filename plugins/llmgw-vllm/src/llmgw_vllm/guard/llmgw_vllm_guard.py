"""Asks for the engine's key on every path of vLLM but /health; runs inside vLLM's own process.

vLLM's own check covers a few prefixes only: /invocations, for one, answers chat completions without a key.
This file stands alone in a directory that llmgw puts on PYTHONPATH, so that nothing else of llmgw can be
imported by the engine. It needs nothing but the standard library of Python 3.9, with which vLLM 0.8.5 runs.

Importing it without a key fails, and so does vLLM's start: a guard that lets everybody in must not come up.
"""

from __future__ import annotations

import hmac
import json
import os
from typing import Any, Awaitable, Callable, Dict  # noqa: UP035 - Python 3.9

__all__ = ["KeyGuard"]

Scope = Dict[str, Any]  # noqa: UP006 - Python 3.9
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

VARIABLE = "VLLM_API_KEY"
OPEN_PATH = "/health"
_REFUSAL = json.dumps(
    {"error": {"message": "This engine asks for its key.", "type": "authentication_error", "code": 401}}
).encode()


def _expected() -> bytes:
    key = os.environ.get(VARIABLE, "")
    if not key:
        raise RuntimeError(f"llmgw's key guard found no key in {VARIABLE}; vLLM must not start without it")
    return f"Bearer {key}".encode()


class KeyGuard:
    """ASGI middleware: passes a request on only with the key, but for /health."""

    expected = _expected()

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan" or (kind == "http" and scope["path"] == OPEN_PATH) or self._has_key(scope):
            await self._app(scope, receive, send)
        elif kind == "websocket":
            # Closed before it was accepted, it never exists: the client sees a 403.
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _refuse(send)

    def _has_key(self, scope: Scope) -> bool:
        given = [value for name, value in scope.get("headers", ()) if name.lower() == b"authorization"]
        # Two headers may be read in two ways by two programs.
        return len(given) == 1 and hmac.compare_digest(given[0], self.expected)


async def _refuse(send: Send) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(_REFUSAL)).encode()),
        (b"www-authenticate", b"Bearer"),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": _REFUSAL})
