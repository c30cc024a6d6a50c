"""Whether a request may go on to an engine now. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from llmgw_core.spec import Endpoint
from llmgw_core.traffic.routing import InFlight

RETRY_AFTER = 1
"""Seconds after which a client that found every replica full may ask again."""


def with_room(endpoints: Iterable[Endpoint], in_flight: InFlight, gateways_live: int) -> tuple[Endpoint, ...]:
    """The endpoints that take one more request from this gateway."""
    return tuple(
        endpoint
        for endpoint in endpoints
        if len(in_flight.get(endpoint.replica, ())) < share(endpoint.max_inflight, gateways_live)
    )


def share(max_inflight: int, gateways_live: int) -> int:
    """This gateway's part of a replica's `max_inflight`: the gateways divide it, each has at least one."""
    return max(1, max_inflight // max(1, gateways_live))
