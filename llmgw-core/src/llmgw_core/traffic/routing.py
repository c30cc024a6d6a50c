"""Which endpoint a request goes to. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from llmgw_core.spec import Endpoint

InFlight = Mapping[str, Collection[str]]
"""Replica → ids of the requests that it is working on: a set of ids can never leak or go below zero."""


def choose(
    endpoints: Iterable[Endpoint], in_flight: InFlight, exclude: Collection[str] = ()
) -> Endpoint | None:
    """The endpoint with the fewest of our own requests; None when all are excluded.

    An endpoint known to be ready goes before one that is not heard of at the moment; ties are settled by
    replica id, so that the same facts always give the same choice.
    """
    usable = (endpoint for endpoint in endpoints if endpoint.replica not in exclude)
    return min(usable, key=lambda endpoint: _cost(endpoint, in_flight), default=None)


def _cost(endpoint: Endpoint, in_flight: InFlight) -> tuple[bool, int, str]:
    doubtful = endpoint.state != "ready" or endpoint.node_state == "unreachable"
    return doubtful, len(in_flight.get(endpoint.replica, ())), endpoint.replica
