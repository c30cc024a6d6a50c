"""The stream's rules under random schedules of faults: no GPU held twice, no shard started twice,

nothing stopped that was not named, no stale epoch obeyed; and in the end the fleet is what is wanted.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def _world_module() -> ModuleType:
    name = "llmgw_tests_stream_world"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("stream_world.py"))
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


stream_world: Any = _world_module()
NODE = st.sampled_from(stream_world.NODES)
STEP = st.one_of(
    st.tuples(st.just("ticks"), st.integers(1, 30)),
    st.tuples(st.just("cut"), NODE),
    st.tuples(st.just("mend"), NODE),
    st.tuples(st.just("kill agent"), NODE),
    st.tuples(st.just("start agent"), NODE),
    st.tuples(st.just("lose state"), NODE),
    st.tuples(st.just("kill engine"), NODE),
    st.tuples(st.just("new control"), st.none()),
    st.tuples(st.just("old control ends"), st.none()),
    st.tuples(st.just("want"), st.tuples(st.sampled_from("ab"), st.integers(0, 2))),
)


def play(world: Any, step: tuple[str, Any]) -> None:
    """Do one step of a schedule."""
    what, who = step
    machine: Any = world.machines.get(who) if isinstance(who, str) else None
    if what == "ticks":
        for _ in range(who):
            world.tick()
    elif what == "want":
        world.wanted[who[0]] = who[1]
    elif what == "new control":
        world.new_control()
    elif what == "old control ends":
        world.drop_old_controls()
    elif what in ("cut", "mend"):
        machine.cut = what == "cut"
    elif what == "kill agent":
        machine.kill_agent()
    elif what in ("start agent", "lose state"):
        machine.kill_agent()
        machine.start_agent(state_lost=what == "lose state")
    elif what == "kill engine":
        for engine in list(machine.engines.values())[-1:]:
            engine.alive = False


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.lists(STEP, min_size=5, max_size=60))
def test_no_schedule_of_faults_breaks_an_invariant(schedule: list[tuple[str, Any]]) -> None:
    world = stream_world.World()
    for step in schedule:
        play(world, step)
        world.tick()
    world.heal()


def test_a_quiet_world_runs_what_is_wanted() -> None:
    world = stream_world.World()
    world.heal()
    assert world.running() == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("rule", "violation"),
    (("at most once", "at most once"), ("fencing", "stale"), ("absence", "stop")),
)
def test_the_model_finds_a_missing_rule(rule: str, violation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_world, "take_assign", _without(rule))
    with pytest.raises(AssertionError, match=violation):
        _provoke(rule)


def _without(rule: str) -> Any:
    from llmgw_core.node import assignment
    from llmgw_core.node.effects import Stop

    def broken(state: Any, assign: Any, now: float, boot: str, token: Any, *, capacity: Any) -> Any:
        if rule == "fencing":
            state = stream_world.replace(state, heard=assign.epoch, applied=None)
        if rule == "at most once":
            ended = frozenset(record.id for record in state.records.values() if record.ended)
            state = state.without(ended)
        after, effects = assignment.take_assign(state, assign, now, boot, token, capacity=capacity)
        if rule == "absence":
            run = {shard.shard for shard in assign.run}
            absent = [record.id for record in after.live if record.id not in run]
            effects += tuple(Stop(shard) for shard in absent)
        return after, effects

    return broken


def _provoke(rule: str) -> None:
    """The short schedule that needs the rule."""
    world = stream_world.World()
    world.wanted = {"a": 2, "b": 2}
    for _ in range(10):
        world.tick()
    machine = world.machines["n1"]
    if rule == "fencing":
        world.new_control()
        world.wanted = {"a": 1, "b": 1}
        old = world.controls[0]
        for _ in range(3):
            world.tick()
        _resend_everything(old)
    elif rule == "at most once":
        for engine in machine.engines.values():
            engine.alive = False
        for _ in range(2):  # it is cleaned up, then it has ended
            machine.step()
        _resend_everything(world.controls[0])
    else:
        _send_nothing(world.controls[0])
    for _ in range(5):
        world.tick()


def _resend_everything(control: Any) -> None:
    """A process that was paused in the middle of a send wakes up and goes on."""
    for node, link in control.links.items():
        entry = control.fleet.nodes[node]
        entry.number += 1
        run = (
            tuple(entry.sent.run)
            if entry.sent.run
            else tuple(
                intent.shard for intent in control.world.store.intents.values() if intent.shard.node == node
            )
        )
        link.down.append(stream_world.Assign(epoch=control.epoch, number=entry.number, run=run))


def _send_nothing(control: Any) -> None:
    for node, link in control.links.items():
        entry = control.fleet.nodes[node]
        entry.number += 1
        link.down.append(stream_world.Assign(epoch=control.epoch, number=entry.number))
