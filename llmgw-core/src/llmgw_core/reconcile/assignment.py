"""What one node is told: everything that should be there and everything that should go. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llmgw_core.inventory.node_view import NodeView
from llmgw_core.spec.identity import Epoch, shard_id
from llmgw_core.spec.intent import Intent
from llmgw_core.spec.shard import Shard
from llmgw_core.spec.wire import StopOrder


@dataclass(frozen=True)
class Orders:
    """The content of an assignment, without its number: two equal ones need not be sent twice."""

    run: tuple[Shard, ...] = ()
    stop: tuple[StopOrder, ...] = ()
    dismiss: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.run or self.stop or self.dismiss)


def orders_for(
    node: NodeView,
    intents: Mapping[str, Intent],
    nodes: Mapping[str, NodeView],
    epoch: Epoch,
    dismiss: frozenset[str] = frozenset(),
) -> Orders:
    """What to tell `node`. Intents of earlier leaderships that it does not list are never sent again."""
    own = [intents[shard] for shard in sorted(intents) if intents[shard].shard.node == node.name]
    return Orders(
        run=tuple(_to_run(node, own, nodes, epoch)),
        stop=tuple(
            StopOrder(shard=intent.shard.shard, reason=intent.reason, grace=intent.grace)
            for intent in own
            if intent.goal == "stop"
        ),
        dismiss=tuple(sorted(shard for shard in dismiss if shard in node.shards or shard in node.refused)),
    )


def _to_run(
    node: NodeView, own: list[Intent], nodes: Mapping[str, NodeView], epoch: Epoch
) -> Iterator[Shard]:
    for intent in own:
        shard = intent.shard
        if intent.goal == "stop":
            continue
        listed = shard.shard in node.shards
        if listed or (_not_applied(node, intent, epoch) and _leader_is_there(shard, nodes)):
            yield shard.model_copy(update={"goal": "drain" if intent.goal == "drain" else "run"})


def _not_applied(node: NodeView, intent: Intent, epoch: Epoch) -> bool:
    if intent.epoch != epoch:
        return False
    stamp = intent.stamp
    return stamp is None or node.applied is None or not node.applied.at_or_above(stamp)


def _leader_is_there(shard: Shard, nodes: Mapping[str, NodeView]) -> bool:
    """Rank 0 is sent first: both vLLM and SGLang put the rendezvous point there."""
    if shard.rank == 0:
        return True
    head = nodes.get(shard.peers[0].node)
    return head is not None and shard_id(shard.replica, 0) in head.shards
