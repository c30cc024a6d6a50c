"""Assemble replicas from reports and intents, and decide what may be believed of each rank."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw_core.inventory.node_view import NodeView
from llmgw_core.reconcile.state import Actual, Fate, Rank, Replica
from llmgw_core.spec.identity import Epoch, shard_id
from llmgw_core.spec.intent import Intent
from llmgw_core.spec.shard import Shard


def gather(actual: Actual) -> tuple[Replica, ...]:
    """Every replica that an intent or a report tells of, by id; their states are not judged yet."""
    about: dict[str, Shard] = {}
    for shard in _known_shards(actual):
        first = about.setdefault(shard.replica, shard)
        if shard.rank < first.rank:
            about[shard.replica] = shard
    return tuple(_assemble(actual, about[replica]) for replica in sorted(about))


def _known_shards(actual: Actual) -> Iterator[Shard]:
    for intent in actual.intents.values():
        yield intent.shard
    for node in actual.nodes.values():
        for shard, spec in node.specs.items():
            status = node.shards.get(shard)
            # A terminal record of a node that does not speak proves nothing to this leader.
            if status is not None and (node.speaks or not status.ended):
                yield spec


def _assemble(actual: Actual, about: Shard) -> Replica:
    ranks = tuple(_rank(actual, about, rank) for rank in range(about.world))
    return Replica(about.replica, about, ranks)


def _rank(actual: Actual, about: Shard, number: int) -> Rank:
    shard = shard_id(about.replica, number)
    name = about.peers[number].node
    node = actual.nodes.get(name) or NodeView(name)
    intent = actual.intents.get(shard)
    return Rank(
        node=name,
        fate=fate(node, shard, intent, actual.epoch),
        shard=intent.shard if intent else node.specs.get(shard),
        intent=intent,
        status=node.shards.get(shard),
        refusal=node.refused.get(shard, ""),
        late=node.freshness != "ready" or not node.speaks,
    )


def fate(node: NodeView, shard: str, intent: Intent | None, epoch: Epoch) -> Fate:
    """What this leader may believe of one shard (rules 2 and 3 of the stream).

    Where a node speaks its report wins: an intent of an earlier leadership that it does not list is over,
    and one of this leadership is over once the node has applied the assignment that named it.
    """
    if node.freshness == "lost":
        return "lost"
    if not node.speaks:
        return "unknown"
    if shard in node.refused:
        return "refused"
    status = node.shards.get(shard)
    if status is not None:
        return "ended" if status.ended else "there"
    if intent is None or intent.epoch != epoch:
        return "vanished"
    stamp = intent.stamp
    if stamp is None or node.applied is None or not node.applied.at_or_above(stamp):
        return "unnamed"
    return "vanished"
