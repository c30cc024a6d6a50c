"""A client's request: read within bounds, checked as far as the gateway must understand it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import orjson
from starlette.types import Receive, Scope

from llmgw_core.gateway.body import deeper_than, replaced, top_level_values
from llmgw_core.gateway.openai import ApiError

MAX_DEPTH = 64
_JSON_TYPES = ("application/json", "")
"""Nothing at all is taken for JSON: many programs send bodies without a type."""


class ClientGone(Exception):
    """Raised when the client went away before its request was complete."""


@dataclass(frozen=True)
class ModelRequest:
    """What the gateway needs to know of a request for a model; `body` is as it came."""

    body: bytes
    model: str
    stream: bool

    def body_for(self, model: str) -> bytes:
        """The body for an engine that knows itself as `model`: the same bytes but for the name."""
        if model == self.model:
            return self.body
        return replaced(self.body, top_level_values(self.body, "model")[0], model)


def headers_named(scope: Scope, name: bytes) -> list[bytes]:
    """The values of every header of that (lower-case) name, in order."""
    return [value for key, value in scope["headers"] if key == name]


def check_headers(scope: Scope, max_body: int) -> None:
    """Refuse what can be refused without reading the body. Raises ApiError."""
    _check_type(headers_named(scope, b"content-type"))
    if any(coding.lower() != b"identity" for coding in headers_named(scope, b"content-encoding")):
        raise ApiError(415, "unsupported_content_encoding", "Send the body uncompressed.")
    for length in headers_named(scope, b"content-length"):
        if length.isdigit() and int(length) > max_body:
            raise _too_large(max_body)


async def read_body(receive: Receive, max_body: int) -> bytes:
    """The whole body. Raises ApiError when it grows over `max_body` bytes, ClientGone when it breaks off."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > max_body:
            raise _too_large(max_body)
        if not message.get("more_body", False):
            return bytes(body)


def parse(body: bytes) -> ModelRequest:
    """Understand a body. Raises ApiError that says what is wrong and never repeats the body."""
    _check_text(body)
    members = _members(body)
    if _may_repeat_model(body) and len(top_level_values(body, "model")) > 1:
        raise ApiError(400, "duplicate_key", "'model' is given more than once.", param="model")
    return ModelRequest(body=body, model=_model(members), stream=_stream(members))


def _check_type(values: Iterable[bytes]) -> None:
    for value in values:
        media, *parameters = (part.strip().lower() for part in value.decode("latin-1").split(";"))
        charset = next((part[8:].strip('"') for part in parameters if part.startswith("charset=")), "utf-8")
        if media not in _JSON_TYPES or charset not in ("utf-8", "utf8"):
            raise ApiError(
                415, "unsupported_media_type", "Send JSON in UTF-8 with content-type: application/json."
            )


def _check_text(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        message = f"The body is not UTF-8 (byte {error.start})."
        raise ApiError(400, "invalid_encoding", message) from None
    if deeper_than(body, MAX_DEPTH):
        raise ApiError(400, "json_too_deep", f"The body nests deeper than {MAX_DEPTH} levels.")


def _members(body: bytes) -> dict[str, object]:
    try:
        members = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        message = f"The body is not valid JSON: line {error.lineno}, column {error.colno}."
        raise ApiError(400, "invalid_json", message) from None
    if not isinstance(members, dict):
        raise ApiError(400, "invalid_type", "The body must be a JSON object.")
    return members


def _may_repeat_model(body: bytes) -> bool:
    # The scan costs Python time for each token of the body; a name can be spelled twice only if it is
    # there twice, or with an escape (every ASCII letter's escape begins like this).
    return body.count(b'"model"') != 1 or b"\\u00" in body


def _model(members: dict[str, object]) -> str:
    if "model" not in members:
        raise ApiError(400, "missing_required_parameter", "'model' is missing.", param="model")
    model = members["model"]
    if not isinstance(model, str):
        raise ApiError(400, "invalid_type", "'model' must be a string.", param="model")
    if not model:
        raise ApiError(400, "invalid_value", "'model' must not be empty.", param="model")
    return model


def _stream(members: dict[str, object]) -> bool:
    stream = members.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise ApiError(400, "invalid_type", "'stream' must be true or false.", param="stream")
    return stream is True


def _too_large(max_body: int) -> ApiError:
    # The rest of the body is never read, so the connection cannot be used again.
    return ApiError(
        413,
        "request_too_large",
        f"The body is larger than {max_body} bytes.",
        headers={"connection": "close"},
    )
