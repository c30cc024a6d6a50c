"""What is dismissed, and when a replica that drains may be stopped."""

from __future__ import annotations

import pytest
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.reconcile.backoff import Backoff
from llmgw_core.reconcile.reconcile import reconcile
from llmgw_core.reconcile.state import Actual
from llmgw_core.reconcile.table import model_entries
from llmgw_core.spec import Failure, Intent, Stamp
from llmgw_core.testing.samples import EPOCH, catalog, model, report, shard, status

ONE = shard()


def _node(state: str, **fields: object) -> NodeView:
    base: dict[str, object] = {
        "report": report("n1"),
        "speaks": True,
        "connected": True,
        "applied": Stamp(epoch=EPOCH, number=5),
        "shards": {ONE.shard: status(ONE, state)},
        "specs": {ONE.shard: ONE},
    }
    return NodeView("n1", **(base | fields))  # type: ignore[arg-type]


def _actual(node: NodeView, *intents: Intent, **fields: object) -> Actual:
    base: dict[str, object] = {
        "epoch": EPOCH,
        "nodes": {"n1": node},
        "intents": {intent.shard.shard: intent for intent in intents},
        "known_revisions": frozenset({"1-a"}),
    }
    return Actual(**(base | fields))  # type: ignore[arg-type]


def _dismissed(actual: Actual) -> dict[str, frozenset[str]]:
    decision = reconcile(catalog(), actual, now=1.0, jitter=0.5, new_replica="r-bbbbbbbbbb")
    return dict(decision.dismiss)


@pytest.mark.parametrize(
    ("node", "forgotten"),
    (
        (_node("Failed", specs={}), True),
        (_node("Ready", shards={}, specs={}, refused={ONE.shard: "no room"}), True),
        (_node("Failed", specs={}, speaks=False), False),
        (_node("Ready", specs={}), False),
    ),
    ids=("ended", "refused", "not speaking", "running"),
)
def test_an_end_that_belongs_to_no_replica_is_dismissed_again(node: NodeView, forgotten: bool) -> None:
    assert _dismissed(_actual(node)) == ({"n1": frozenset({ONE.shard})} if forgotten else {})


@pytest.mark.parametrize(
    ("fields", "stopped"),
    (
        ({}, True),
        ({"still_routed": frozenset({ONE.replica})}, False),
        ({"gateways_settled": False}, False),
        ({"in_flight": {ONE.replica: 1}}, False),
    ),
)
def test_what_drains_is_stopped_when_no_gateway_can_have_requests_there(
    fields: dict[str, object], stopped: bool
) -> None:
    drain = Intent(shard=ONE, goal="drain", epoch=EPOCH, number=1)
    actual = _actual(_node("Draining"), drain, **fields)
    decision = reconcile(catalog(model()), actual, now=1.0, jitter=0.5, new_replica="r-bbbbbbbbbb")
    assert [entry.goal for entry in decision.put if entry.shard == ONE] == (["stop"] if stopped else [])


def test_a_drain_that_was_taken_over_is_written_once() -> None:
    taken_over = Intent(shard=ONE, goal="drain", epoch=EPOCH, number=0)
    actual = _actual(_node("Draining"), taken_over, in_flight={ONE.replica: 1})
    decision = reconcile(catalog(model(replicas=0)), actual, now=1.0, jitter=0.5, new_replica="r-bbbbbbbbbb")
    assert decision.put == ()


def test_a_backoff_that_runs_changes_the_table_in_steps_and_not_with_every_pass() -> None:
    entry = Backoff(1, 40.0, Failure(failure="crash"), "r")
    waits = [
        model_entries(catalog(model()), {}, {"m": entry}, now)[0].retry_after for now in (0, 11, 14, 39, 90)
    ]
    assert waits == [40, 30, 30, 5, 5]
