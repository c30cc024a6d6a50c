"""The ports of a shard: one block of its node's range, HTTP first."""

from __future__ import annotations

from llmgw_core.inventory.free import FreePorts
from llmgw_core.placement.asked import Wanted
from llmgw_core.spec.engine import PortNeed


def _needs(wanted: Wanted) -> tuple[PortNeed, ...]:
    # A single node holds rank 0, which is the leader.
    return tuple(need for need in wanted.engine.ports if wanted.profile.nodes > 1 or not need.only_multi_node)


def ports_needed(wanted: Wanted) -> int:
    """How many ports in a row one shard takes."""
    return 1 + sum(need.count for need in _needs(wanted))


def choose_ports(wanted: Wanted, free: FreePorts) -> tuple[int, dict[str, tuple[int, ...]]] | None:
    """The HTTP port and the engine's other ports by name; None where no block is free."""
    block = free.lowest_block(ports_needed(wanted))
    if block is None:
        return None
    http, rest = block[0], list(block[1:])
    extra: dict[str, tuple[int, ...]] = {}
    for need in _needs(wanted):
        extra[need.name], rest = tuple(rest[: need.count]), rest[need.count :]
    return http, extra
