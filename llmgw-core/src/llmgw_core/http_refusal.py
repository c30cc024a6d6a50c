"""The answers to requests that no application gets to see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

import orjson

from llmgw_core.http_limits import HttpLimits


@dataclass(frozen=True)
class Refusal:
    """Why a request is not read to its end. `code` is stable; `message` repeats nothing of the input."""

    status: int
    code: str
    message: str

    def answer(self, request: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
        """The whole answer as it goes over the wire, in the form of the OpenAI API's errors.

        `request` is the id under which it is logged, `headers` those that every answer of the server has.
        """
        error = {
            "message": self.message,
            "type": "invalid_request_error",
            "param": None,
            "code": self.code,
        }
        body = orjson.dumps({"error": error})
        lines = [
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}".encode(),
            *(name + b": " + value for name, value in headers),
            b"content-type: application/json",
            f"content-length: {len(body)}".encode(),
            f"x-request-id: {request}".encode(),
            b"connection: close",
        ]
        return b"\r\n".join([*lines, b"", body])


def target_too_long(limits: HttpLimits) -> Refusal:
    """Of the request line."""
    return Refusal(414, "uri_too_long", f"The request target is longer than {limits.target} bytes.")


def headers_too_large(limits: HttpLimits) -> Refusal:
    """Of a head, of the fields after a chunked body, or of what stands between chunks."""
    allowed = f"{limits.fields} fields and {limits.field_block} bytes"
    return Refusal(431, "headers_too_large", f"A request may have {allowed} of headers.")


def head_too_slow(limits: HttpLimits) -> Refusal:
    """The head is not complete in time."""
    message = f"The headers of the request were not complete within {limits.head_time:g} s."
    return Refusal(408, "request_timeout", message)


def body_too_slow(limits: HttpLimits) -> Refusal:
    """The body trickles."""
    rate = f"{limits.body_rate:g} bytes a second over {limits.body_window:g} s"
    return Refusal(408, "request_timeout", f"The body of the request came slower than {rate}.")


def invalid_framing() -> Refusal:
    """What came is no HTTP, or HTTP that two servers could understand differently."""
    return Refusal(400, "invalid_framing", "This is not valid HTTP/1.1.")


def upgrade_not_supported() -> Refusal:
    """Another protocol is asked for; where its first byte would stand, a body might."""
    message = "No other protocol than HTTP/1.1 is spoken here; send the request without `upgrade`."
    return Refusal(400, "upgrade_not_supported", message)
