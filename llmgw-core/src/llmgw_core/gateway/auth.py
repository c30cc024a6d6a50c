"""Who is asking: `Authorization: Bearer llmgw-…`."""

from __future__ import annotations

from starlette.types import Scope

from llmgw_core.gateway.keyring import KnownKey
from llmgw_core.gateway.openai import ApiError, retry_after
from llmgw_core.gateway.request import headers_named
from llmgw_core.gateway.state import GatewayState

MAX_KEY = 512
"""Characters of a key; longer ones are refused before they are hashed."""
STARTING_RETRY_AFTER = 1.0


def authenticate(scope: Scope, state: GatewayState, now: float) -> KnownKey:
    """The key of a request. Raises ApiError, the same for every kind of key that is not in force.

    `now` is the monotonic clock.
    """
    if not state.keyring.complete:
        raise ApiError(
            503,
            "gateway_starting",
            "This gateway has not heard from a control plane yet; try again.",
            headers=retry_after(STARTING_RETRY_AFTER),
        )
    known = state.keyring.find(_bearer(headers_named(scope, b"authorization")), now)
    if known is None:
        raise _unauthorized()
    return known


def _bearer(values: list[bytes]) -> str:
    """The token of the one header that there must be; empty (which no key is) when there is none."""
    if len(values) != 1:
        return ""
    scheme, _, token = values[0].decode("latin-1").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token.isascii() or len(token) > MAX_KEY:
        return ""
    return token


def _unauthorized() -> ApiError:
    return ApiError(
        401,
        "invalid_api_key",
        "The API key is missing, wrong or no longer valid; send it as 'Authorization: Bearer <key>'.",
        headers={"www-authenticate": "Bearer"},
    )
