"""What a starting agent makes of its records and of the processes that it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from llmgw_core.node import lifecycle
from llmgw_core.node.adoption import adopt
from llmgw_core.node.relist import relist
from llmgw_core.node.state import NodeState, Process, Record
from llmgw_core.ports import ProcessId, ProcessSeen
from llmgw_core.spec import NO_EPOCH, Epoch, Readiness, Shard

MakeShard = Callable[..., Shard]
BOOT, TOKEN = "boot-1", "t0"


def seen(
    shard: Shard, pid: int, token: str = TOKEN, *, process: str = "engine", leader: bool = True
) -> ProcessSeen:
    identity = ProcessId(pid, pid * 10, BOOT, token)
    return ProcessSeen(identity, shard.shard, shard.model_dump_json(), process=process, leader=leader)


@pytest.fixture
def running(agent: Any, shard: MakeShard) -> NodeState:
    """A node with the Ready shard r-a, whose engine is pid 10."""
    agent.assign(1, shard(gpu=0))
    agent.apply(lifecycle.launching, 101.0)
    agent.apply(lifecycle.spawned, Process("engine", ProcessId(10, 100, BOOT, "t0")))
    agent.apply(lifecycle.loading, 102.0)
    agent.apply(lifecycle.judged, Readiness(ready=True), 103.0)
    state: NodeState = agent.state
    return state


def only(state: NodeState) -> Record:
    (record,) = state.records.values()
    return record


def changed(before: NodeState, /, **changes: Any) -> NodeState:
    return before.put(replace(only(before), **changes))


def test_a_live_engine_is_taken_over_as_it_was(running: NodeState) -> None:
    found = adopt(running, (seen(only(running).shard, 10),), BOOT, 200.0)
    record = only(found.state)
    assert (record.state, record.since, record.adopted) == ("Ready", 103.0, True)
    assert record.processes == only(running).processes
    assert (found.watch, found.end, found.kill) == (("r-a/0",), (), ())


def test_an_engine_that_ended_meanwhile_has_vanished(running: NodeState) -> None:
    found = adopt(running, (), BOOT, 200.0)
    record = only(found.state)
    assert record.state == "Failed"
    assert record.failure is not None
    assert record.failure.failure == "vanished"


def test_a_process_with_the_same_pid_but_another_start_is_not_the_engine(running: NodeState) -> None:
    stranger = seen(only(running).shard, 10)
    stranger = replace(stranger, id=replace(stranger.id, started=999, token="other"))
    found = adopt(running, (stranger,), BOOT, 200.0)
    assert only(found.state).state == "Failed"


def test_after_a_reboot_everything_has_ended_as_rebooted(running: NodeState) -> None:
    failure = only(adopt(running, (), "boot-2", 5.0).state).failure
    assert failure is not None
    assert failure.failure == "rebooted"


def test_the_time_in_a_state_does_not_outlive_the_boot(running: NodeState) -> None:
    assert only(adopt(running, (), "boot-2", 5.0).state).since == 5.0


@pytest.mark.parametrize("launched", (False, True))
def test_an_intent_without_a_process_has_failed_because_of_the_agent(
    agent: Any, shard: MakeShard, launched: bool
) -> None:
    agent.assign(1, shard())
    if launched:
        agent.apply(lifecycle.launching, 101.0)
    failure = only(adopt(agent.state, (), BOOT, 200.0).state).failure
    assert failure is not None
    assert failure.failure == "agent"


def test_an_engine_that_was_forked_but_not_noted_is_taken_over(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard())
    agent.apply(lifecycle.launching, 101.0)
    child = seen(shard(), 31, leader=False)
    found = adopt(agent.state, (seen(shard(), 30), child), BOOT, 200.0)
    record = only(found.state)
    assert (record.state, found.watch) == ("Loading", ("r-a/0",))
    assert [process.id.pid for process in record.processes] == [30]


def test_what_was_stopping_is_ended_further(running: NodeState) -> None:
    state = changed(running, state="Stopping", goal="stop")
    found = adopt(state, (seen(only(running).shard, 10),), BOOT, 200.0)
    assert (found.watch, found.end) == ((), ("r-a/0",))


@pytest.mark.parametrize("state", ("Stopping", "Unkillable"))
def test_what_was_stopping_and_is_gone_has_stopped(running: NodeState, state: str) -> None:
    found = adopt(changed(running, state=state, goal="stop"), (), BOOT, 200.0)
    assert only(found.state).state == "Stopped"


def test_what_an_ended_engine_left_behind_is_ended_before_the_shard_has_failed(running: NodeState) -> None:
    left = seen(only(running).shard, 11)
    found = adopt(running, (left,), BOOT, 200.0)
    record = only(found.state)
    assert (record.state, found.end) == ("Stopping", ("r-a/0",))
    assert record.failure is not None
    assert [process.id for process in record.processes] == [left.id]


def test_a_half_finished_launch_is_ended(agent: Any, shard: MakeShard) -> None:
    agent.assign(1, shard())
    agent.apply(lifecycle.launching, 101.0)
    found = adopt(agent.state, (seen(shard(), 30, process="ray"),), BOOT, 200.0)
    assert found.end == ("r-a/0",)
    record = only(found.state)
    assert record.failure is not None
    assert record.failure.failure == "agent"


def test_a_process_whose_record_is_lost_is_adopted_by_its_own_description(shard: MakeShard) -> None:
    found = adopt(NodeState(), (seen(shard(gpu=0), 10),), BOOT, 200.0)
    record = only(found.state)
    assert (record.shard, record.state, record.adopted, record.token) == (shard(gpu=0), "Loading", True, "t0")
    assert found.state.applied is None
    assert found.watch == ("r-a/0",)
    assert len(found.notes) == 1


def test_a_recovered_shard_is_no_longer_refused_for_its_damaged_record(shard: MakeShard) -> None:
    damaged = NodeState(refused={"r-a/0": "damaged", "r-z/0": "damaged"})
    found = adopt(damaged, (seen(shard(), 10),), BOOT, 200.0)
    assert set(found.state.refused) == {"r-z/0"}


@pytest.mark.parametrize("spec", (None, "", "{", '{"shard": "r-a/0"}'))
def test_a_process_that_nothing_describes_is_killed(shard: MakeShard, spec: str | None) -> None:
    stranger = replace(seen(shard(), 10), spec=spec)
    found = adopt(NodeState(), (stranger,), BOOT, 200.0)
    assert found.kill == (stranger,)
    assert found.state.records == {}


def test_a_description_of_another_shard_than_the_marker_counts_for_nothing(shard: MakeShard) -> None:
    stranger = replace(seen(shard(), 10), shard="r-b/0")
    assert adopt(NodeState(), (stranger,), BOOT, 200.0).kill == (stranger,)


def test_a_second_process_tree_of_one_shard_is_killed(running: NodeState) -> None:
    shard = only(running).shard
    double = seen(shard, 50, token="t9")
    found = adopt(running, (seen(shard, 10), double), BOOT, 200.0)
    assert found.kill == (double,)
    assert found.watch == ("r-a/0",)


def test_what_is_left_of_an_ended_shard_is_killed(running: NodeState) -> None:
    left = seen(only(running).shard, 10)
    found = adopt(changed(running, state="Stopped"), (left,), BOOT, 200.0)
    assert found.kill == (left,)
    assert only(found.state).state == "Stopped"


def test_a_lost_state_hears_again_of_the_highest_epoch_that_its_processes_know(shard: MakeShard) -> None:
    processes = (
        seen(shard(epoch=Epoch(number=3, control="A")), 10),
        seen(shard("r-b", epoch=Epoch(number=5, control="B")), 11, "t1"),
    )
    assert adopt(NodeState(), processes, BOOT, 1.0).state.heard == Epoch(number=5, control="B")
    assert adopt(NodeState(), (), BOOT, 1.0).state.heard == NO_EPOCH


def test_a_lost_state_does_not_guess_which_of_two_leaders_of_one_number_was_heard(shard: MakeShard) -> None:
    processes = (
        seen(shard(epoch=Epoch(number=3, control="A")), 10),
        seen(shard("r-b", epoch=Epoch(number=3, control="B")), 11, "t1"),
    )
    assert adopt(NodeState(), processes, BOOT, 1.0).state.heard == Epoch(number=3, control="")


def test_a_kept_state_keeps_what_it_heard(running: NodeState) -> None:
    running = replace(running, heard=Epoch(number=9, control="Z"))
    assert adopt(running, (), BOOT, 1.0).state.heard == Epoch(number=9, control="Z")


def test_a_relist_finds_what_ended_unseen_and_what_nobody_knows(running: NodeState) -> None:
    shard = only(running).shard
    engine = seen(shard, 10)
    assert relist(running, (engine, seen(shard, 12, leader=False))) == relist(running, (engine,))
    stranger = seen(shard, 13, token="t9")
    found = relist(running, (stranger,))
    assert [(name, process.id.pid) for name, process in found.ended] == [("r-a/0", 10)]
    assert found.strangers == (stranger,)
