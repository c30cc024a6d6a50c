"""What the reconciler decides, on a synthetic clock."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from llmgw_core.catalog.model import Catalog
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.placement.result import Unschedulable
from llmgw_core.reconcile.decision import Decision
from llmgw_core.reconcile.reconcile import reconcile
from llmgw_core.reconcile.state import Actual
from llmgw_core.spec import Epoch, Failure, Intent, Shard, ShardStatus, Stamp
from llmgw_core.testing.samples import EPOCH, catalog, model, profile, report, shard, status

NEW = "r-bbbbbbbbbb"


def view(name: str = "n1", *pairs: tuple[Shard, ShardStatus], **fields: object) -> NodeView:
    """A node that speaks and lists `pairs`."""
    base: dict[str, object] = {
        "name": name,
        "report": report(name),
        "speaks": True,
        "connected": True,
        "applied": Stamp(epoch=EPOCH, number=5),
        "shards": {one.shard: state for one, state in pairs},
        "specs": {one.shard: one for one, _ in pairs},
    }
    return NodeView(**(base | fields))  # type: ignore[arg-type]


def intent(of: Shard, **fields: object) -> Intent:
    """An intent that an assignment has named."""
    base: dict[str, object] = {"shard": of, "epoch": EPOCH, "number": 1}
    return Intent.model_validate(base | fields)


def actual(*nodes: NodeView, intents: tuple[Intent, ...] = (), **fields: object) -> Actual:
    """The fleet of these nodes and intents, in a leadership whose amnesty is over."""
    base: dict[str, object] = {
        "epoch": EPOCH,
        "nodes": {node.name: node for node in nodes},
        "intents": {entry.shard.shard: entry for entry in intents},
        "known_revisions": frozenset({"1-a"}),
    }
    return Actual(**(base | fields))  # type: ignore[arg-type]


def run(desired: Catalog, state: Actual, *, now: float = 1000.0) -> Decision:
    """One pass."""
    return reconcile(desired, state, now=now, jitter=0.5, new_replica=NEW)


def states(decision: Decision) -> Mapping[str, str]:
    """State of each replica by id."""
    return {replica.id: replica.state for replica in decision.replicas}


def test_a_missing_replica_is_placed_and_another_pass_follows_at_once() -> None:
    decision = run(catalog(model(replicas=2)), actual(view()))
    assert [entry.shard.replica for entry in decision.put] == [NEW]
    assert decision.more
    assert decision.put[0].number is None


def test_a_settled_fleet_is_a_fixed_point() -> None:
    one = shard()
    decision = run(catalog(model()), actual(view("n1", (one, status(one))), intents=(intent(one),)))
    assert (decision.put, decision.drop, dict(decision.dismiss), decision.more) == ((), (), {}, False)
    assert states(decision) == {one.replica: "Ready"}


def test_nothing_is_placed_while_an_unknown_replica_may_still_be_there() -> None:
    one = shard(nodes=("n2",))
    old = intent(one, epoch=Epoch(number=0, control="before"))
    decision = run(catalog(model()), actual(view("n1"), NodeView("n2"), intents=(old,)))
    assert decision.put == ()
    assert states(decision) == {one.replica: "Unknown"}


def test_a_reported_replica_without_an_intent_is_taken_over() -> None:
    one = shard()
    decision = run(catalog(model()), actual(view("n1", (one, status(one)))))
    assert [(entry.shard.shard, entry.goal) for entry in decision.put] == [(one.shard, "run")]
    assert states(decision) == {one.replica: "Ready"}


def test_an_intent_of_an_earlier_leadership_that_a_speaking_node_does_not_list_is_dropped() -> None:
    one = shard()
    old = intent(one, epoch=Epoch(number=0, control="before"))
    decision = run(catalog(model()), actual(view("n1"), intents=(old,)))
    assert decision.drop == (one.shard,)


def test_a_shard_that_was_named_but_is_not_listed_has_vanished_and_backs_off() -> None:
    one = shard()
    decision = run(catalog(model()), actual(view("n1"), intents=(intent(one),)))
    assert decision.drop == (one.shard,)
    assert decision.backoff["m"].failure.failure == "vanished"
    assert decision.backoff["m"].until > 1000.0
    assert decision.put == ()


def test_a_shard_above_what_the_node_applied_is_still_on_its_way() -> None:
    one = shard()
    late = view("n1", applied=Stamp(epoch=EPOCH, number=0))
    decision = run(catalog(model()), actual(late, intents=(intent(one),)))
    assert (decision.drop, states(decision)) == ((), {one.replica: "Pending"})


def test_a_configuration_failure_is_not_retried_until_the_catalog_changes() -> None:
    one = shard()
    broken = status(one, "Failed", failure=Failure(failure="configuration", detail="not a GGUF"))
    first = run(catalog(model()), actual(view("n1", (one, broken)), intents=(intent(one),)))
    assert first.dismiss == {"n1": frozenset({one.shard})}
    waiting = actual(view("n1"), backoff=first.backoff)
    assert run(catalog(model()), waiting, now=1600.0).put == ()
    assert run(catalog(model(), revision="2-b"), waiting, now=1600.0).put != ()
    assert run(catalog(model()), waiting, now=1000.0 + 31 * 60).put != ()


def test_a_failure_is_counted_once_though_its_record_is_listed_until_it_is_dismissed() -> None:
    one = shard()
    broken = status(one, "Failed", failure=Failure(failure="crash"))
    node = view("n1", (one, broken))
    first = run(catalog(model()), actual(node, intents=(intent(one),)))
    second = run(catalog(model()), actual(node, backoff=first.backoff))
    assert second.backoff["m"].failures == first.backoff["m"].failures == 1


def test_a_port_in_use_is_retried_at_once_three_times() -> None:
    one = shard()
    broken = status(one, "Failed", failure=Failure(failure="port_in_use"))
    decision = run(catalog(model()), actual(view("n1", (one, broken)), intents=(intent(one),)))
    assert [entry.shard.replica for entry in decision.put] == [NEW]


def test_a_replica_stopped_on_its_node_is_no_failure_and_is_placed_anew() -> None:
    one = shard()
    decision = run(
        catalog(model()), actual(view("n1", (one, status(one, "Stopped"))), intents=(intent(one),))
    )
    assert decision.backoff == {}
    assert decision.drop == (one.shard,)
    assert [entry.shard.replica for entry in decision.put] == [NEW]


def test_an_intent_that_never_left_is_no_failure_when_its_leadership_ended() -> None:
    one = shard()
    old = intent(one, epoch=Epoch(number=0, control="before"), number=None)
    decision = run(catalog(model()), actual(view("n1"), intents=(old,)))
    assert (decision.drop, decision.backoff) == ((one.shard,), {})
    assert [entry.shard.replica for entry in decision.put] == [NEW]


def test_nothing_is_placed_on_a_node_that_is_leaving() -> None:
    leaving = view("n1", report=report("n1", draining=True))
    assert run(catalog(model()), actual(leaving)).put == ()


def test_one_failed_shard_stops_the_whole_replica() -> None:
    ranks = [shard(rank=rank, nodes=("n1", "n2")) for rank in (0, 1)]
    failed = status(ranks[1], "Failed", failure=Failure(failure="crash", detail="exit code 1"))
    decision = run(
        catalog(model()),
        actual(
            view("n1", (ranks[0], status(ranks[0]))),
            view("n2", (ranks[1], failed)),
            intents=tuple(intent(one) for one in ranks),
        ),
    )
    assert {(entry.shard.rank, entry.goal, entry.number) for entry in decision.put} == {
        (0, "stop", None),
        (1, "stop", None),
    }
    assert decision.backoff["m"].failure.detail == "exit code 1"


def test_a_replica_whose_model_left_the_catalog_is_stopped_by_name() -> None:
    one = shard()
    decision = run(catalog(), actual(view("n1", (one, status(one))), intents=(intent(one),)))
    assert [(entry.goal, entry.number) for entry in decision.put] == [("stop", None)]


def test_an_unmatched_replica_is_not_stopped_during_the_amnesty() -> None:
    one = shard()
    node = view("n1", (one, status(one)))
    assert run(catalog(), actual(node, quiet=True)).put == ()
    assert [entry.goal for entry in run(catalog(), actual(node)).put] == ["stop"]


def test_a_replica_newer_than_the_store_is_held_and_never_stopped() -> None:
    one = shard(catalog_revision="9-z")
    decision = run(catalog(), actual(view("n1", (one, status(one))), intents=(intent(one),)))
    assert (decision.put, states(decision)) == ((), {one.replica: "Held"})


def test_a_changed_launch_form_ends_the_old_replica() -> None:
    one = shard()
    changed = model(profiles=(profile(max_model_len=1024),))
    decision = run(catalog(changed), actual(view("n1", (one, status(one))), intents=(intent(one),)))
    assert (one.shard, "stop") in {(entry.shard.shard, entry.goal) for entry in decision.put}


def test_surplus_is_drained_and_the_one_that_serves_stays() -> None:
    old, young = shard(), shard(replica="r-cccccccccc", http_port=20001)
    node = view("n1", (old, status(old, for_seconds=500)), (young, status(young, "Loading")))
    decision = run(catalog(model()), actual(node, intents=(intent(old), intent(young))))
    assert [(entry.shard.replica, entry.goal) for entry in decision.put] == [(young.replica, "stop")]


def test_no_replica_that_is_heard_is_drained_because_of_one_that_is_not() -> None:
    heard, silent = shard(), shard(replica="r-cccccccccc", nodes=("n2",))
    late = view("n2", (silent, status(silent)), freshness="late", silence=20.0)
    decision = run(
        catalog(model()),
        actual(view("n1", (heard, status(heard))), late, intents=(intent(heard), intent(silent))),
    )
    assert decision.put == ()


def test_a_replica_that_ends_by_itself_holds_its_place_until_it_is_judged() -> None:
    one = shard()
    ending = status(one, "Stopping", failure=Failure(failure="crash", detail="exit code 1"))
    decision = run(catalog(model()), actual(view("n1", (one, ending)), intents=(intent(one),)))
    assert (states(decision), decision.put) == ({one.replica: "Stopping"}, ())


def test_a_drained_replica_is_stopped_once_nobody_uses_it() -> None:
    one = shard()
    state = status(one, "Draining", for_seconds=1)
    draining = (intent(one, goal="drain"),)
    node = view("n1", (one, state))
    busy = run(catalog(model()), actual(node, intents=draining, in_flight={one.replica: 1}))
    assert states(busy)[one.replica] == "Draining"
    idle = run(catalog(model()), actual(node, intents=draining))
    assert (one.shard, "stop") in {(entry.shard.shard, entry.goal) for entry in idle.put}


@pytest.mark.parametrize(("late", "stopped"), ((False, True), (True, False)))
def test_load_timeout_is_judged_by_a_report_that_is_not_late(late: bool, stopped: bool) -> None:
    one = shard()
    slow = status(one, "Loading", for_seconds=10_000)
    node = view("n1", (one, slow), freshness="late" if late else "ready")
    decision = run(catalog(model()), actual(node, intents=(intent(one),)))
    assert any(entry.goal == "stop" for entry in decision.put) is stopped
    assert bool(decision.backoff) is stopped


def test_a_lost_replica_is_replaced_and_wins_when_it_returns() -> None:
    one = shard(nodes=("n2",))
    gone = view("n2", (one, status(one)), freshness="lost", silence=400.0)
    decision = run(catalog(model()), actual(view("n1"), gone, intents=(intent(one),)))
    assert states(decision)[one.replica] == "Lost"
    assert [entry.shard.node for entry in decision.put] == ["n1"]
    copy = decision.put[0].shard
    back = view("n2", (one, status(one, for_seconds=4000)))
    young = view("n1", (copy, status(copy, for_seconds=30)))
    again = run(catalog(model()), actual(young, back, intents=(intent(one), intent(copy))))
    assert [(entry.shard.replica, entry.goal) for entry in again.put] == [(copy.replica, "drain")]


def test_a_model_that_waits_for_a_lost_node_gets_no_copy() -> None:
    one = shard(nodes=("n2",))
    gone = view("n2", (one, status(one)), freshness="lost", silence=400.0)
    decision = run(catalog(model(on_lost="wait")), actual(view("n1"), gone, intents=(intent(one),)))
    assert decision.put == ()


def test_what_fits_nowhere_says_why() -> None:
    decision = run(catalog(model(profiles=(profile(cpus=64),))), actual(view()))
    answer = decision.placements["m"]
    assert isinstance(answer, Unschedulable)
    assert [(r.node, r.needed, r.had) for r in answer.rejections] == [("n1", "64", "4")]


def test_a_long_ready_replica_clears_the_backoff() -> None:
    one = shard()
    broken = status(one, "Failed", failure=Failure(failure="crash"))
    failed = run(catalog(model()), actual(view("n1", (one, broken)), intents=(intent(one),)))
    next_one = shard(replica=NEW)
    ready = view("n1", (next_one, status(next_one, for_seconds=31)))
    decision = run(catalog(model()), actual(ready, intents=(intent(next_one),), backoff=failed.backoff))
    assert decision.backoff == {}
