"""Errors in the form of the OpenAI API. A `code` is stable: clients may depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

QUOTE_LIMIT = 64
"""Characters of a client's input that an error may repeat."""

INVALID_REQUEST = "invalid_request_error"
SERVER_ERROR = "server_error"


class ApiError(Exception):
    """Raised to answer a request with an error.

    `message` is for the developer who reads the client's exception. Never put into it a key, a prompt, or
    more than QUOTE_LIMIT characters of the input (see `quoted`).
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """The answer's JSON."""
        return orjson.dumps(error_object(self.status, self.code, self.message, self.param))


def error_object(status: int, code: str, message: str, param: str | None = None) -> dict[str, Any]:
    """The error object of the OpenAI API, as a body or as an event of a stream."""
    kind = SERVER_ERROR if status >= 500 else INVALID_REQUEST
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def quoted(text: str) -> str:
    """`text` for a message: shortened, and control characters made visible."""
    short = text if len(text) <= QUOTE_LIMIT else text[: QUOTE_LIMIT - 1] + "…"
    return "'" + "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in short) + "'"


def retry_after(seconds: float) -> dict[str, str]:
    """The header that tells a client when to come back: whole seconds, at least one."""
    return {"retry-after": str(max(1, round(seconds)))}


def model_not_found(name: str) -> ApiError:
    """The same answer for a model that is not there and for one that this key may not use.

    Otherwise anybody with a key could find out the names of other people's models.
    """
    message = (
        f"The model {quoted(name)} does not exist or this key may not use it; GET /v1/models lists yours."
    )
    return ApiError(404, "model_not_found", message, param="model")


def not_found() -> ApiError:
    """Nothing is served at this path."""
    return ApiError(404, "not_found", "There is nothing at this path; the API begins at /v1.")
