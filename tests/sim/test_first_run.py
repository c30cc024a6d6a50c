"""One simulated run of the real control plane and the real agent: start, ready, kill, adopt, stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from llmgw_core.control.app import ControlPlane
from llmgw_core.ports import ProcessId
from llmgw_core.simulate.virtual_time import run
from llmgw_core.simulate.world import World, until

New = Callable[..., Any]

CATALOG = """\
version: 1
models:
  small:
    source: /models/small
    profiles: [{name: cpu, engine: simulated, cpus: 1, gpus_per_node: 0}]
"""
EMPTY = "version: 1\nmodels: {}\n"


def _states(control: ControlPlane) -> dict[str, str]:
    return {replica.id: replica.state for replica in control.snapshot.replicas}


async def _first_run(seed: int, new_cluster: New) -> tuple[str, dict[str, tuple[ProcessId, ...]], list[str]]:
    """The run; returns the trace's digest, the live processes at each step, and states that were seen."""
    async with anyio.create_task_group() as tasks:
        world = World(seed, tasks)
        cluster = new_cluster(world, tasks, CATALOG)
        machine = cluster.machines["n1"]
        control = await cluster.start_control()
        await cluster.start_agents()
        await until(lambda: list(_states(control).values()) == ["Ready"], within=60)
        seen = {"ready": machine.live}
        cluster.kill_agents()
        await until(lambda: not control.snapshot.actual.nodes["n1"].connected, within=60)
        await cluster.start_agents()
        await until(lambda: _adopted(control), within=60)
        seen["adopted"] = machine.live
        cluster.catalog.text = EMPTY
        await control.reload_catalog()
        await until(lambda: not control.snapshot.replicas and not machine.live, within=60)
        seen["stopped"] = machine.live
        tasks.cancel_scope.cancel()
    states = [
        happened.event.message for happened in control.events.recent() if "replica" in happened.event.kind
    ]
    return world.trace.digest, seen, states


def _adopted(control: ControlPlane) -> bool:
    replicas = control.snapshot.replicas
    return [replica.state for replica in replicas] == ["Ready"] and all(
        rank.status is not None and rank.status.adopted for replica in replicas for rank in replica.ranks
    )


def _play(seed: int, new_cluster: New) -> tuple[str, dict[str, tuple[ProcessId, ...]], list[str]]:
    return run(lambda: _first_run(seed, new_cluster))


def test_a_killed_agent_costs_nothing_and_the_engine_is_adopted_then_stopped_by_name(
    new_cluster: New,
) -> None:
    _, live, states = _play(1, new_cluster)
    assert len(live["ready"]) == 1
    assert live["adopted"] == live["ready"]
    assert live["stopped"] == ()
    assert not [state for state in states if state.startswith("Failed")]


@pytest.mark.parametrize("seed", (1, 7))
def test_one_seed_gives_one_trace(seed: int, new_cluster: New) -> None:
    assert _play(seed, new_cluster)[0] == _play(seed, new_cluster)[0]


def test_another_seed_gives_another_trace(new_cluster: New) -> None:
    assert _play(1, new_cluster)[0] != _play(2, new_cluster)[0]
