"""A simulated run of a replica over two nodes: start, ready, one engine killed, all of it rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from llmgw_core.control.app import ControlPlane
from llmgw_core.ports import ProcessId
from llmgw_core.simulate.machine import Machine, SimProc
from llmgw_core.simulate.virtual_time import run
from llmgw_core.simulate.world import World, until
from llmgw_core.spec import Shard

New = Callable[..., Any]

CATALOG = """\
version: 1
models:
  wide:
    source: /models/wide
    profiles: [{name: two, engine: simulated, cpus: 1, nodes: 2, gpus_per_node: 0}]
"""


@dataclass
class Seen:
    """What a run has shown: the shards and live processes of both replicas, and events in order."""

    first: tuple[Shard, ...] = ()
    second: tuple[Shard, ...] = ()
    killed: ProcessId | None = None
    before: dict[str, tuple[ProcessId, ...]] = field(default_factory=dict)
    after: dict[str, tuple[ProcessId, ...]] = field(default_factory=dict)
    spawned: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)


def _live(machines: dict[str, Machine]) -> dict[str, tuple[ProcessId, ...]]:
    return {name: machine.live for name, machine in machines.items()}


def _shards(control: ControlPlane) -> tuple[Shard, ...]:
    """The shards of the one replica that is Ready; none while there is no such."""
    replicas = control.snapshot.replicas
    if [replica.state for replica in replicas] != ["Ready"]:
        return ()
    return tuple(rank.shard for rank in replicas[0].ranks if rank.shard is not None)


async def _run(new_cluster: New) -> Seen:
    seen = Seen()
    async with anyio.create_task_group() as tasks:
        world = World(1, tasks)
        cluster = new_cluster(world, tasks, CATALOG, machines=2)
        control = await cluster.start_control()
        await cluster.start_agents()
        await until(lambda: bool(_shards(control)), within=60)
        seen.first, seen.before = _shards(control), _live(cluster.machines)
        worker = cluster.machines[seen.first[1].node]
        (seen.killed,) = worker.live
        SimProc(worker).signal(seen.killed, "KILL", group=True)
        await until(lambda: _shards(control)[:1] not in ((), seen.first[:1]), within=120)
        seen.second, seen.after = _shards(control), _live(cluster.machines)
        tasks.cancel_scope.cancel()
    seen.states = [event.event.message for event in control.events.recent() if "replica" in event.event.kind]
    seen.spawned = [line for line in world.trace.lines if "spawns" in line]
    return seen


def test_a_replica_of_which_one_node_fails_is_rebuilt_whole(new_cluster: New) -> None:
    seen = run(lambda: _run(new_cluster))
    assert [shard.node for shard in seen.first] == ["n1", "n2"]
    assert {shard.rendezvous_port for shard in seen.first} == {20001}
    assert [len(live) for live in seen.before.values()] == [1, 1]
    assert {shard.replica for shard in seen.first}.isdisjoint(shard.replica for shard in seen.second)
    assert sorted(shard.node for shard in seen.second) == ["n1", "n2"]
    assert [len(live) for live in seen.after.values()] == [1, 1]
    # The engine of the other node waited for collectives that would never complete: it was ended too.
    assert not {*seen.before["n1"], *seen.before["n2"]} & {*seen.after["n1"], *seen.after["n2"]}
    assert "Stopping: engine was ended by signal KILL" in seen.states


def test_the_leader_is_started_before_its_worker(new_cluster: New) -> None:
    seen = run(lambda: _run(new_cluster))
    ranks = [line.rpartition("/")[2] for line in seen.spawned]
    assert ranks == ["0", "1", "0", "1"], seen.spawned
