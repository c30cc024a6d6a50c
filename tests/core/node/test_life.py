"""The life of a shard: which event leads where, and which changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest
from llmgw_core.node import lifecycle
from llmgw_core.node.report import shard_records, statuses
from llmgw_core.node.state import Process, Record
from llmgw_core.ports import Exit, ProcessId
from llmgw_core.spec import AgentState, FailurePattern, Readiness, Shard

MakeShard = Callable[..., Shard]
ENGINE = Process("engine", ProcessId(10, 20, "boot-1", "t0"))
READY, NOT_READY = Readiness(ready=True), Readiness(ready=False, reason="no weights yet")
PATTERNS = (
    FailurePattern(pattern="out of memory", failure="out_of_memory", hint="smaller context"),
    FailurePattern(pattern="no such file", failure="configuration"),
)


@pytest.fixture
def record(agent: Any, shard: MakeShard) -> Record:
    agent.assign(1, shard())
    found: Record = agent.record()
    return found


@pytest.fixture
def loading(record: Record) -> Record:
    return lifecycle.loading(lifecycle.spawned(lifecycle.launching(record, 101.0), ENGINE), 102.0)


@pytest.fixture
def ready(loading: Record) -> Record:
    return lifecycle.judged(loading, READY, 110.0)


def exited(record: Record, end: Exit, tail: str = "") -> Record:
    return lifecycle.exited(record, "engine", end, 120.0, tail=tail, patterns=PATTERNS)


def test_a_shard_goes_from_pending_to_ready(record: Record, ready: Record) -> None:
    assert record.state == "Pending"
    assert lifecycle.launching(record, 101.0).state == "Starting"
    assert (ready.state, ready.since, ready.processes) == ("Ready", 110.0, (ENGINE,))


def test_a_shard_is_loading_until_the_plugin_says_that_it_is_ready(loading: Record) -> None:
    waiting = lifecycle.judged(loading, NOT_READY, 105.0)
    assert (waiting.state, waiting.since, waiting.detail) == ("Loading", 102.0, "no weights yet")


def test_liveness_does_not_make_a_loading_shard_ready(loading: Record) -> None:
    assert lifecycle.alive(loading, None, 105.0).state == "Loading"


def test_a_shard_whose_command_waits_for_a_port_is_pending_meanwhile(record: Record) -> None:
    waiting = lifecycle.waiting(lifecycle.launching(record, 101.0), "waits for x:1", 102.0)
    assert (waiting.state, waiting.detail, waiting.launched) == ("Pending", "waits for x:1", True)


def test_one_lost_probe_does_not_make_a_shard_unhealthy(ready: Record) -> None:
    once = lifecycle.alive(ready, "timed out", 120.0)
    assert once.state == "Ready"
    assert lifecycle.alive(once, None, 130.0).misses == 0


def test_a_shard_that_fails_its_probes_in_a_row_is_unhealthy_and_recovers(ready: Record) -> None:
    for number in range(lifecycle.UNHEALTHY_AFTER):
        ready = lifecycle.alive(ready, "timed out", 120.0 + number)
    assert (ready.state, ready.detail, ready.since) == ("Unhealthy", "timed out", 122.0)
    assert lifecycle.alive(ready, None, 130.0).state == "Ready"


def test_a_draining_shard_stays_draining_whatever_its_probes_say(ready: Record) -> None:
    draining = lifecycle.aimed(ready, "drain", 120.0)
    for _ in range(lifecycle.UNHEALTHY_AFTER):
        draining = lifecycle.alive(draining, "timed out", 121.0)
    assert draining.state == "Draining"
    assert lifecycle.judged(draining, READY, 122.0).state == "Draining"


def test_a_drain_of_a_loading_shard_takes_effect_when_it_is_ready(loading: Record) -> None:
    aimed = lifecycle.aimed(loading, "drain", 103.0)
    assert aimed.state == "Loading"
    assert lifecycle.judged(aimed, READY, 110.0).state == "Draining"


def test_a_drain_can_be_taken_back(ready: Record) -> None:
    draining = lifecycle.aimed(ready, "drain", 120.0)
    assert lifecycle.aimed(draining, "run", 130.0).state == "Ready"


def test_an_asked_for_end_is_stopped_whatever_the_exit(ready: Record) -> None:
    stopping = lifecycle.asked_to_stop(ready, "scaled down", 5.0, 120.0)
    assert exited(stopping, Exit(code=143)) == stopping
    ended = lifecycle.gone(stopping, 125.0)
    assert (ended.state, ended.detail, ended.failure) == ("Stopped", "scaled down", None)


def test_an_exit_that_nobody_asked_for_fails_once_nothing_is_left(ready: Record) -> None:
    dying = exited(ready, Exit(code=3), "first\nlast words\n\n")
    assert dying.state == "Stopping"
    ended = lifecycle.gone(dying, 121.0)
    assert ended.state == "Failed"
    assert ended.failure is not None
    assert (ended.failure.failure, ended.failure.exit_code) == ("crash", 3)
    assert ended.failure.detail == "engine exited with code 3: last words"


@pytest.mark.parametrize(
    ("end", "tail", "kind"),
    (
        (Exit(code=1), "CUDA out of memory", "out_of_memory"),
        (Exit(code=1), "open: no such file", "configuration"),
        (Exit(code=0), "", "crash"),
        (Exit(signal="SEGV"), "", "crash"),
        (Exit(signal="KILL"), "CUDA out of memory", "killed"),
        (Exit(signal="TERM"), "", "killed"),
        (Exit(), "", "crash"),
    ),
)
def test_an_exit_while_loading_is_classified(loading: Record, end: Exit, tail: str, kind: str) -> None:
    failure = exited(loading, end, tail).failure
    assert failure is not None
    assert failure.failure == kind


def test_the_line_that_shows_a_known_failure_is_told_not_the_last_one(loading: Record) -> None:
    failure = exited(loading, Exit(code=1), "start\nE open: no such file x\nexiting\n").failure
    assert failure is not None
    assert failure.detail == "engine exited with code 1: E open: no such file x"


def test_patterns_are_for_launches_not_for_what_a_serving_engine_has_logged(ready: Record) -> None:
    failure = exited(ready, Exit(code=1), "a client asked about: no such file").failure
    assert failure is not None
    assert failure.failure == "crash"


def test_a_pattern_that_is_no_regular_expression_does_not_hide_the_failure(loading: Record) -> None:
    broken = (FailurePattern(pattern="(", failure="rendezvous"), *PATTERNS)
    ended = lifecycle.exited(loading, "engine", Exit(code=1), 120.0, tail="out of memory", patterns=broken)
    assert ended.failure is not None
    assert ended.failure.failure == "out_of_memory"


def test_the_kept_tail_is_bounded(loading: Record) -> None:
    failure = exited(loading, Exit(code=1), "x" * 10_000).failure
    assert failure is not None
    assert len(failure.tail) == lifecycle.TAIL_BYTES


def test_a_failed_shard_that_is_then_named_in_stop_still_says_how_it_failed(ready: Record) -> None:
    dying = exited(ready, Exit(code=3))
    ended = lifecycle.gone(lifecycle.asked_to_stop(dying, "half is gone", 5.0, 121.0), 122.0)
    assert ended.state == "Failed"


def test_what_survives_kill_is_unkillable_until_it_is_gone(ready: Record) -> None:
    stopping = lifecycle.asked_to_stop(ready, "", 5.0, 120.0)
    left = lifecycle.unkillable(stopping, "pid 10 (engine)", 140.0)
    assert left.state == "Unkillable"
    assert "pid 10" in left.detail
    assert not left.ended
    assert lifecycle.gone(left, 150.0).state == "Stopped"


EVENTS: dict[str, Callable[[Record], Record]] = {
    "launching": lambda r: lifecycle.launching(r, 200.0),
    "waiting": lambda r: lifecycle.waiting(r, "x", 200.0),
    "loading": lambda r: lifecycle.loading(r, 200.0),
    "judged": lambda r: lifecycle.judged(r, READY, 200.0),
    "alive": lambda r: lifecycle.alive(r, None, 200.0),
    "aimed": lambda r: lifecycle.aimed(r, "drain", 200.0),
    "exited": lambda r: exited(r, Exit(code=1)),
    "failing": lambda r: lifecycle.failing(r, lifecycle.failure("agent", "x"), 200.0),
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", ("Stopping", "Unkillable", "Stopped", "Failed"))
def test_no_late_event_brings_an_ending_shard_back(ready: Record, state: AgentState, event: str) -> None:
    ending = replace(ready, state=state)
    assert EVENTS[event](ending) == ending


@pytest.mark.parametrize("state", get_args(AgentState))
def test_gone_ends_only_what_was_ending(ready: Record, state: AgentState) -> None:
    ended = lifecycle.gone(replace(ready, state=state), 200.0)
    assert ended.state == ("Stopped" if state in {"Stopping", "Unkillable"} else state)


def test_a_status_tells_everything_but_secrets(agent: Any, ready: Record) -> None:
    agent.state = agent.state.put(replace(ready, key="engine-key-in-clear"))
    (status,) = statuses(agent.state, 115.0)
    assert (status.state, status.for_seconds, status.pid) == ("Ready", 5.0, 10)
    (record,) = shard_records(agent.state, 115.0)
    assert (record.shard, record.status) == (ready.shard, status)
    assert "engine-key-in-clear" not in record.model_dump_json()
    assert "t0" not in record.model_dump_json()


def test_what_a_killed_engine_was_doing_is_not_told_as_its_last_words(ready: Record) -> None:
    dying = exited(ready, Exit(signal="KILL"), "launch_slot: processing somebody's task\n")
    assert dying.failure is not None
    assert dying.failure.detail == "engine was ended by signal KILL"
    assert "somebody" in dying.failure.tail
