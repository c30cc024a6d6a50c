"""The agent's rules under any sequence of leads, assignments, exits and restarts."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from hypothesis import settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from llmgw_core.node import lifecycle
from llmgw_core.node.adoption import adopt
from llmgw_core.node.assignment import take_assign, take_lead
from llmgw_core.node.effects import Effect, Start, Stop
from llmgw_core.node.resources import Capacity, conflict
from llmgw_core.node.state import NodeState, Process
from llmgw_core.ports import Exit, ProcessId, ProcessSeen
from llmgw_core.spec import (
    Assign,
    Epoch,
    GpuRef,
    Lead,
    Peer,
    Profile,
    Readiness,
    Shard,
    StopOrder,
    shard_id,
)

EPOCHS = [Epoch(number=number, control=control) for number in (1, 2, 3) for control in "AB"]
CAPACITY = Capacity(cpus=4, memory_mib=4096)
REPLICAS = [f"r-{name}" for name in "abcdef"]


def make_shard(replica: str, gpu: int) -> Shard:
    return Shard(
        shard=shard_id(replica, 0),
        replica=replica,
        rank=0,
        world=1,
        epoch=EPOCHS[0],
        catalog_revision="1-x",
        revision="0" * 12,
        model="m",
        served_name="m",
        source="/m",
        engine="fake",
        profile=Profile(name="p", engine="fake"),
        peers=(Peer(node="n1", address="127.0.0.1"),),
        address="127.0.0.1",
        leader_address="127.0.0.1",
        http_port=20000 + REPLICAS.index(replica),
        gpus=(GpuRef(index=gpu, uuid=f"GPU-{gpu}"),),
    )


SHARDS = [make_shard(replica, gpu % 2) for gpu, replica in enumerate(REPLICAS)]
NAMES = [shard.shard for shard in SHARDS]


class Node(RuleBasedStateMachine):
    """One node: `truth` is what really runs, by shard id; everything else is the agent's belief."""

    def __init__(self) -> None:
        super().__init__()
        self.state = NodeState(cluster="c1")
        self.now = 1.0
        self.pids = count(100)
        self.tokens = count()
        self.truth: dict[str, ProcessSeen] = {}
        self.started: list[str] = []
        self.named: set[str] = set()
        self.heard = self.state.heard
        self.newest = 0
        self.to_start: set[str] = set()

    @rule(epoch=some.sampled_from(EPOCHS))
    def lead(self, epoch: Epoch) -> None:
        taken = take_lead(self.state, Lead(cluster="c1", epoch=epoch))
        if taken is None:
            assert epoch.number < self.heard.number or (epoch.number == self.heard.number)
            assert epoch != self.heard
            return
        assert epoch.number > self.heard.number or epoch == self.heard
        self.newest = self.newest if epoch == self.heard else 0
        self.state, self.heard = taken, epoch

    @rule(
        epoch=some.sampled_from(EPOCHS),
        number=some.integers(1, 30),
        run=some.lists(some.sampled_from(NAMES), max_size=4),
        stop=some.lists(some.sampled_from(NAMES), max_size=2),
        dismiss=some.lists(some.sampled_from(NAMES), max_size=1),
        current=some.booleans(),
    )
    def assign(
        self, *, epoch: Epoch, number: int, run: list[str], stop: list[str], dismiss: list[str], current: bool
    ) -> None:
        if current:
            epoch, number = self.heard, self.newest + 1
        # A leader does not name again what it has dismissed; that is its half of "at most once".
        named = [SHARDS[NAMES.index(s)] for s in run if s in self.state.records or s not in self.started]
        orders = tuple(StopOrder(shard=shard, reason="r") for shard in stop)
        before = self.state
        self.state, effects = take_assign(
            before,
            Assign(epoch=epoch, number=number, run=tuple(named), stop=orders, dismiss=tuple(dismiss)),
            self.now,
            "boot",
            lambda: f"t{next(self.tokens)}",
            capacity=CAPACITY,
        )
        if epoch != self.heard or number <= self.newest:
            assert (self.state, effects) == (before, ())
            return
        self.newest = number
        self.named |= set(stop)
        self.act(effects)

    def act(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Start):
                self.to_start.add(effect.shard)
            if isinstance(effect, Stop):
                assert effect.shard in self.named

    @rule(crash=some.sampled_from(["no", "before fork", "after fork"]))
    def launch(self, crash: str) -> None:
        """What the supervisor does for a Start, interrupted by a crash of the agent or not."""
        for shard in sorted(self.to_start):
            record = self.state.records.get(shard)
            if record is None or record.state != "Pending":
                self.to_start.discard(shard)
                continue
            if conflict(self.state, record.shard, CAPACITY):
                continue
            self.to_start.discard(shard)
            self.state = self.state.put(lifecycle.launching(record, self.now))
            if crash != "before fork":
                self.fork(shard, noted=crash == "no")
            if crash != "no":
                self.restart(damaged=None)
            return

    def fork(self, shard: str, *, noted: bool) -> None:
        record = self.state.records[shard]
        identity = ProcessId(next(self.pids), 1, "boot", record.token)
        assert shard not in self.started
        self.started.append(shard)
        self.truth[shard] = ProcessSeen(identity, shard, record.shard.model_dump_json())
        if noted:
            spawned = lifecycle.spawned(record, Process("engine", identity))
            self.state = self.state.put(lifecycle.loading(spawned, self.now))

    @rule(shard=some.sampled_from(NAMES))
    def ready(self, shard: str) -> None:
        if record := self.state.records.get(shard):
            self.state = self.state.put(lifecycle.judged(record, Readiness(ready=True), self.now))

    @rule(shard=some.sampled_from(NAMES))
    def crash_engine(self, shard: str) -> None:
        if self.truth.pop(shard, None) and (record := self.state.records.get(shard)):
            ended = lifecycle.exited(record, "engine", Exit(code=1), self.now, tail="", patterns=())
            self.state = self.state.put(ended)

    @rule()
    def finish_stopping(self) -> None:
        for record in self.state.live:
            if record.state == "Stopping":
                if self.truth.pop(record.id, None):
                    assert record.id in self.named
                self.state = self.state.put(lifecycle.gone(record, self.now))

    @rule(damaged=some.sampled_from([None, "state", *NAMES]))
    def restart(self, damaged: str | None) -> None:
        """The agent is killed and starts again, with its files whole, or with one of them damaged."""
        saved = self.state
        if damaged == "state":
            saved = replace(saved, applied=None, heard=NodeState().heard)
        elif damaged is not None and damaged in saved.records:
            refused = {**saved.refused, damaged: "damaged"}
            saved = replace(saved.without(frozenset({damaged})), refused=refused)
        found = adopt(saved, tuple(self.truth.values()), "boot", self.now)
        assert found.kill == ()
        if found.state.heard != self.heard:
            self.heard, self.newest = found.state.heard, 0
        self.state = found.state
        self.to_start.clear()

    @invariant()
    def no_gpu_is_held_twice(self) -> None:
        gpus = [shard.gpus[0].index for shard in SHARDS if shard.shard in self.truth]
        assert len(gpus) == len(set(gpus))

    @invariant()
    def no_shard_is_started_twice(self) -> None:
        assert len(self.started) == len(set(self.started))

    @invariant()
    def what_runs_is_in_the_records(self) -> None:
        assert self.truth.keys() <= {record.id for record in self.state.live}


TestNode = Node.TestCase
TestNode.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
