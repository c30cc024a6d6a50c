"""Rules 1, 3 and 4 of the stream: what an assignment may and may not change on a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from llmgw_core.node import lifecycle
from llmgw_core.node.assignment import acknowledged, evicted
from llmgw_core.node.effects import Forget, Start, Stop
from llmgw_core.node.resources import Capacity, conflict
from llmgw_core.node.state import MAX_TERMINAL, NodeState
from llmgw_core.spec import Epoch, Shard, Stamp
from pydantic import SecretStr

MakeShard = Callable[..., Shard]
A1, B1, B2 = Epoch(number=1, control="A"), Epoch(number=1, control="B"), Epoch(number=2, control="B")


def test_a_new_shard_is_recorded_and_started(agent: Any, shard: MakeShard, key: SecretStr) -> None:
    assert agent.assign(1, shard(), keys={"r-a": key})
    record = agent.record()
    assert (record.state, record.goal, record.key) == ("Pending", "run", "engine-key-in-clear")
    assert agent.effects == (Start("r-a/0"),)
    assert agent.state.applied == Stamp(epoch=A1, number=1)


def test_the_key_of_a_record_is_not_in_its_repr(agent: Any, shard: MakeShard, key: SecretStr) -> None:
    agent.assign(1, shard(), keys={"r-a": key})
    assert "engine-key-in-clear" not in repr(agent.state)


def test_absence_from_an_assignment_stops_nothing(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard())
    before = agent.record()
    assert agent.assign(2)
    assert agent.effects == ()
    assert agent.record() == before


@pytest.mark.parametrize("epoch", (B1, B2, Epoch(number=0, control="A")))
def test_an_assignment_of_an_epoch_that_was_not_heard_last_is_not_acted_on(
    agent: Any, shard: MakeShard, epoch: Epoch
) -> None:
    assert not agent.assign(1, shard(), epoch=epoch)
    assert agent.effects == ()
    assert agent.state.records == {}


def test_after_a_new_lead_the_old_leader_is_not_obeyed(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard())
    agent.lead(B2)
    assert not agent.assign(2, stop=["r-a/0"])
    assert agent.record().goal == "run"


@pytest.mark.parametrize("number", (4, 5))
def test_a_number_that_is_not_newer_is_not_acted_on(agent: Any, shard: MakeShard, number: int) -> None:
    agent.assign(5)
    assert not agent.assign(number, shard())


def test_numbers_begin_anew_with_a_leadership(agent: Any, shard: MakeShard) -> None:
    agent.assign(5)
    agent.lead(B2)
    assert agent.assign(1, shard(), epoch=B2)


def test_a_known_shard_named_again_changes_its_goal_and_nothing_else(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard())
    agent.assign(2, shard(goal="drain", http_port=1, model="other"))
    assert agent.effects == ()
    assert agent.record().goal == "drain"
    assert agent.record().shard == shard()


def test_a_key_that_was_lost_with_the_state_comes_back_with_the_next_assignment(
    agent: Any, shard: MakeShard, key: SecretStr
) -> None:
    agent.assign(1, shard())
    agent.assign(2, shard(), keys={"r-a": key})
    assert agent.record().key == "engine-key-in-clear"


def test_an_ended_shard_named_again_is_only_reported_again(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard())
    ended = agent.apply(lifecycle.failing, lifecycle.failure("agent", "x"), agent.now)
    agent.assign(2, shard())
    assert agent.effects == ()
    assert agent.record() == ended


def test_a_refused_shard_named_again_is_not_started_even_when_there_is_room(
    agent: Any, shard: MakeShard
) -> None:
    agent.assign(1, shard(gpu=0), shard("r-b", gpu=0))
    agent.assign(2, stop=["r-a/0"])
    agent.assign(3, shard("r-b", gpu=0))
    assert agent.effects == ()
    assert set(agent.state.refused) == {"r-b/0"}


def test_only_what_stop_names_is_stopped_with_the_grace_it_was_given(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard(), shard("r-b"))
    agent.apply(lifecycle.launching, agent.now)
    agent.assign(2, stop=["r-a/0", "r-unknown/0"])
    assert agent.effects == (Stop("r-a/0"),)
    assert (agent.record().state, agent.record().grace) == ("Stopping", 7.0)
    assert agent.record("r-b").goal == "run"


def test_a_shard_whose_launch_has_not_begun_is_stopped_at_once(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard())
    agent.assign(2, stop=["r-a/0"])
    assert agent.record().state == "Stopped"


def test_a_stop_named_twice_acts_once(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard())
    agent.apply(lifecycle.launching, agent.now)
    agent.assign(2, stop=["r-a/0"])
    agent.assign(3, stop=["r-a/0"])
    assert agent.effects == ()
    assert agent.record().state == "Stopping"


def test_a_run_does_not_take_back_a_stop(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard())
    agent.apply(lifecycle.launching, agent.now)
    agent.assign(2, stop=["r-a/0"])
    agent.assign(3, shard())
    assert agent.record().goal == "stop"


def test_dismiss_removes_what_has_ended_and_nothing_that_lives(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard(), shard("r-b"))
    agent.assign(2, stop=["r-a/0"], dismiss=["r-a/0", "r-b/0"])
    assert Forget("r-a/0") in agent.effects
    assert set(agent.state.records) == {"r-b/0"}


def test_dismiss_forgets_a_refusal(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard(gpu=0), shard("r-b", gpu=0))
    agent.assign(2, dismiss=["r-b/0"])
    assert agent.state.refused == {}


@pytest.mark.parametrize(
    ("mine", "other"),
    (
        ({"gpu": 0}, {"gpu": 0}),
        ({"hca": "mlx5_0"}, {"hca": "mlx5_0"}),
        ({"port": 20001}, {"port": 20001}),
        ({"extra_ports": {"x": (1, 2)}}, {"extra_ports": {"y": (2,)}}),
        ({"cpus": 5}, {"cpus": 4}),
        ({"memory_mib": 5000}, {"memory_mib": 4000}),
    ),
    ids=["gpu", "hca", "http-port", "extra-port", "cpus", "memory"],
)
def test_what_overlaps_a_running_shard_is_refused_with_the_reason(
    agent: Any, shard: MakeShard, mine: dict[str, Any], other: dict[str, Any]
) -> None:
    agent.assign(1, shard(**mine), shard("r-b", **other))
    assert set(agent.state.records) == {"r-a/0"}
    assert agent.state.refused["r-b/0"]
    assert agent.effects == (Start("r-a/0"),)


def test_the_same_gpu_under_another_index_is_refused(agent: Any, shard: MakeShard) -> None:
    other = shard("r-b", gpu=1)
    moved = other.model_copy(update={"gpus": (other.gpus[0].model_copy(update={"uuid": "GPU-0"}),)})
    agent.assign(1, shard(gpu=0), moved)
    assert "r-b/0" in agent.state.refused


def test_what_does_not_overlap_runs_beside_it(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard(gpu=0, cpus=4, memory_mib=4096), shard("r-b", gpu=1, cpus=4, memory_mib=4096))
    assert agent.effects == (Start("r-a/0"), Start("r-b/0"))


def test_overlap_with_what_is_stopping_waits(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard(gpu=0))
    agent.apply(lifecycle.launching, agent.now)
    agent.assign(2, shard("r-b", gpu=0), stop=["r-a/0"])
    assert Start("r-b/0") in agent.effects
    waiting = agent.record("r-b")
    assert (waiting.state, "GPU 0" in waiting.detail) == ("Pending", True)
    assert conflict(agent.state, waiting.shard, agent.capacity)
    agent.apply(lifecycle.gone, agent.now)
    assert conflict(agent.state, waiting.shard, agent.capacity) is None


def test_overlap_with_what_survives_kill_is_refused(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard(gpu=0))
    agent.apply(lifecycle.launching, agent.now)
    agent.assign(2, stop=["r-a/0"])
    agent.apply(lifecycle.unkillable, "pid 1", agent.now)
    agent.assign(3, shard("r-b", gpu=0))
    assert "r-b/0" in agent.state.refused


def test_what_is_larger_than_the_node_is_refused(agent: Any, shard: MakeShard) -> None:
    agent.capacity = Capacity(cpus=2, memory_mib=1024)
    agent.assign(1, shard(cpus=3))
    assert agent.state.refused == {"r-a/0": "needs 3 CPUs, 2 of 2 are free"}


def many_ended(shard: MakeShard, agent: Any, seen_by: Epoch | None) -> NodeState:
    agent.assign(1, shard("r-0"))
    record = replace(agent.record("r-0"), state="Stopped", seen_by=seen_by)
    records = {
        f"r-{n}/0": replace(record, shard=shard(f"r-{n}"), since=float(n)) for n in range(MAX_TERMINAL + 3)
    }
    before: NodeState = agent.state
    return replace(before, records=records)


def test_the_oldest_records_over_the_cap_go_when_the_leader_has_seen_them(
    agent: Any, shard: MakeShard
) -> None:
    assert evicted(many_ended(shard, agent, A1)) == {"r-0/0", "r-1/0", "r-2/0"}


@pytest.mark.parametrize("seen_by", (None, B1))
def test_no_record_is_evicted_that_the_leader_in_office_has_not_seen(
    agent: Any, shard: MakeShard, seen_by: Epoch | None
) -> None:
    assert evicted(many_ended(shard, agent, seen_by)) == frozenset()


def test_an_acknowledgement_counts_only_for_the_leader_in_office_and_only_for_what_has_ended(
    agent: Any, shard: MakeShard
) -> None:
    agent.assign(1, shard(), shard("r-b"))
    agent.assign(2, stop=["r-a/0"])
    both = frozenset({"r-a/0", "r-b/0", "r-gone/0"})
    assert acknowledged(agent.state, both, B1) == agent.state
    seen = acknowledged(agent.state, both, A1)
    assert seen.records["r-a/0"].seen_by == A1
    assert seen.records["r-b/0"].seen_by is None
