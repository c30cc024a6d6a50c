"""What one node is told: run what should be there, stop by name, nothing by absence."""

from __future__ import annotations

from llmgw_core.inventory.node_view import NodeView
from llmgw_core.reconcile.assignment import orders_for
from llmgw_core.spec import Epoch, Intent, Stamp
from llmgw_core.testing.samples import EPOCH, shard, status


def _node(name: str = "n1", **fields: object) -> NodeView:
    base: dict[str, object] = {"speaks": True, "connected": True, "applied": Stamp(epoch=EPOCH, number=3)}
    return NodeView(name, **(base | fields))  # type: ignore[arg-type]


def _orders(
    node: NodeView, *intents: Intent, others: tuple[NodeView, ...] = ()
) -> tuple[list[str], list[str]]:
    by_shard = {entry.shard.shard: entry for entry in intents}
    nodes = {view.name: view for view in (node, *others)}
    orders = orders_for(node, by_shard, nodes, EPOCH)
    return [one.shard for one in orders.run], [order.shard for order in orders.stop]


def test_a_new_intent_is_named_until_the_node_has_applied_it() -> None:
    one = shard()
    assert _orders(_node(), Intent(shard=one, epoch=EPOCH)) == ([one.shard], [])
    assert _orders(_node(), Intent(shard=one, epoch=EPOCH, number=4)) == ([one.shard], [])
    assert _orders(_node(), Intent(shard=one, epoch=EPOCH, number=3)) == ([], [])


def test_what_the_node_lists_is_always_named() -> None:
    one = shard()
    listed = _node(shards={one.shard: status(one)})
    assert _orders(listed, Intent(shard=one, epoch=EPOCH, number=1)) == ([one.shard], [])


def test_an_intent_of_an_earlier_leadership_is_never_sent_again() -> None:
    old = Intent(shard=shard(), epoch=Epoch(number=0, control="before"))
    assert _orders(_node(), old) == ([], [])


def test_a_stop_is_named_until_the_row_is_gone() -> None:
    one = shard()
    assert _orders(_node(), Intent(shard=one, epoch=EPOCH, goal="stop", number=1)) == ([], [one.shard])


def test_a_worker_is_named_only_once_its_leader_is_there() -> None:
    ranks = [shard(rank=rank, nodes=("n1", "n2")) for rank in (0, 1)]
    worker = Intent(shard=ranks[1], epoch=EPOCH)
    second = _node("n2")
    assert _orders(second, worker, others=(_node("n1"),)) == ([], [])
    leader = _node("n1", shards={ranks[0].shard: status(ranks[0], "Starting")})
    assert _orders(second, worker, others=(leader,)) == ([ranks[1].shard], [])


def test_a_drain_travels_as_the_goal_of_the_shard() -> None:
    one = shard()
    node = _node(shards={one.shard: status(one)})
    drain = Intent(shard=one, epoch=EPOCH, goal="drain", number=1)
    orders = orders_for(node, {one.shard: drain}, {"n1": node}, EPOCH)
    assert [entry.goal for entry in orders.run] == ["drain"]
