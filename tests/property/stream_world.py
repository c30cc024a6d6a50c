"""A small model of control plane, agents and engines over the real rules, for `test_stream_model`.

Messages, decisions and agent rules are the product's own (`Fleet`, `reconcile`, `orders_for`,
`node.assignment`, `node.adoption`, `node.lifecycle`); only sockets, disks and processes are played here.
One tick is one beat. A violated invariant raises AssertionError that begins with its name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from llmgw_core.catalog.model import Catalog
from llmgw_core.control.fleet import Fleet, Node
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.node import lifecycle
from llmgw_core.node.adoption import adopt
from llmgw_core.node.assignment import fenced, take_assign, take_lead
from llmgw_core.node.effects import Effect, Forget, Start, Stop
from llmgw_core.node.report import shard_records, statuses
from llmgw_core.node.resources import Capacity, conflict
from llmgw_core.node.state import ENGINE, NodeState, Process
from llmgw_core.ports import Exit, ProcessId, ProcessSeen
from llmgw_core.reconcile.assignment import Orders, orders_for
from llmgw_core.reconcile.backoff import Backoff
from llmgw_core.reconcile.reconcile import reconcile
from llmgw_core.reconcile.state import Actual, Replica
from llmgw_core.spec import (
    Assign,
    Epoch,
    Gpu,
    Intent,
    Lead,
    Readiness,
    Register,
    Report,
    Stamp,
    Value,
)
from llmgw_core.testing.samples import catalog, model, profile, report
from llmgw_core.timers import FAST

BEAT = FAST.report
CAPACITY = Capacity(cpus=8, memory_mib=8192)
NODES = ("n1", "n2")
PROFILE = profile(gpus_per_node=1, gpu_class="test", name="gpu")
LOAD_BEATS = 2


def desired(wanted: Mapping[str, int]) -> Catalog:
    """A catalog of models that need one GPU a replica; one with no replica has left it."""
    models = (model(name, replicas=count, profiles=(PROFILE,)) for name, count in wanted.items() if count)
    return catalog(*models)


@dataclass
class Engine:
    """A process of the world; it outlives agents."""

    id: ProcessId
    shard: str
    spec: str
    gpu: int
    born: int
    alive: bool = True
    term: bool = False


@dataclass
class Store:
    """What outlives control processes."""

    epoch: int = 0
    intents: dict[str, Intent] = field(default_factory=dict)


@dataclass(eq=False)
class Link:
    """One stream between an agent process and a control process, with what is on its way."""

    control: Control
    up: deque[Value] = field(default_factory=deque)
    down: deque[Value] = field(default_factory=deque)
    open: bool = True

    def post(self, message: Value) -> None:
        """The control plane's sending side."""
        if self.open:
            self.down.append(message)


@dataclass(eq=False)
class Machine:
    """One node: truth about its engines, and its agent while it lives."""

    world: World
    name: str
    disk: NodeState = field(default_factory=NodeState)
    engines: dict[str, Engine] = field(default_factory=dict)
    agent: NodeState | None = None
    links: dict[int, Link] = field(default_factory=dict)
    cut: bool = False
    seq: int = 0
    highest: int = 0
    """Highest epoch that any agent of this node was told and took: the truth that fencing protects."""

    def start_agent(self, *, state_lost: bool = False) -> None:
        """A new agent process: adoption, then it connects to every control process."""
        saved = NodeState() if state_lost else self.disk
        seen = tuple(
            ProcessSeen(engine.id, engine.shard, engine.spec)
            for engine in self.engines.values()
            if engine.alive
        )
        found = adopt(saved, seen, "boot", self.world.now)
        assert not found.kill, "stop: an engine that can be described was to be killed"
        self._save(found.state)

    def kill_agent(self) -> None:
        """kill -9: its streams break, its engines go on."""
        self.agent = None
        for link in self.links.values():
            link.open = False
        self.links.clear()

    def _save(self, state: NodeState) -> None:
        self.agent = self.disk = state

    def step(self) -> None:
        """One beat of the agent: handle what arrived, look after engines, report."""
        if self.agent is None:
            return
        self._connect()
        for link in list(self.links.values()):
            while link.down and not self.cut:
                self._handle(link, link.down.popleft())
        self._supervise()
        for link in self.links.values():
            if not self.cut:
                link.up.append(self._report())

    def _connect(self) -> None:
        for control in self.world.controls:
            link = self.links.get(id(control))
            if self.cut or (link and link.open):
                continue
            link = self.links[id(control)] = Link(control)
            control.accept(self.name, link, self._register())

    def _register(self) -> Register:
        state = self._state()
        self.seq += 1
        return Register(
            node=self.name,
            instance="i",
            agent_version="1",
            boot="boot",
            heard=state.heard,
            applied=state.applied,
            seq=self.seq,
            report=report(self.name, gpus=_gpus(self.name)),
            shards=shard_records(state, self.world.now),
        )

    def _report(self, echo: Epoch | None = None) -> Report:
        state = self._state()
        self.seq += 1
        return Report(
            seq=self.seq,
            heard=state.heard,
            applied=state.applied,
            echo=echo,
            shards=statuses(state, self.world.now),
            refused=dict(state.refused),
        )

    def _state(self) -> NodeState:
        assert self.agent is not None
        return self.agent

    def _handle(self, link: Link, message: Value) -> None:
        state = self._state()
        if isinstance(message, Lead):
            taken = take_lead(state, message)
            if taken is not None:
                self._save(taken)
                self.highest = max(self.highest, message.epoch.number)
                link.up.append(self._report(echo=message.epoch))
        elif isinstance(message, Assign):
            self._assign(state, message)

    def _assign(self, state: NodeState, assign: Assign) -> None:
        after, effects = take_assign(
            state, assign, self.world.now, "boot", self.world.token, capacity=CAPACITY
        )
        if after is not state:
            assert assign.epoch.number >= self.highest, f"stale: epoch {assign.epoch.number} took effect"
            assert fenced(state, assign) is None
        self._save(after)
        named = {order.shard for order in assign.stop}
        for effect in effects:
            self._do(effect, named)

    def _do(self, effect: Effect, named: set[str]) -> None:
        match effect:
            case Stop(shard=shard):
                assert shard in named, f"stop: {shard} was stopped and nobody named it"
                if (engine := self.engines.get(shard)) is not None:
                    engine.term = True
            case Start() | Forget():
                return  # Pending records are launched in `_supervise`; `_save` forgets

    def _supervise(self) -> None:
        for record in self._state().live:
            engine = self.engines.get(record.id)
            now = self.world.now
            if engine is not None and engine.term:
                engine.alive = False
            if record.state == "Pending" and conflict(self._state(), record.shard, CAPACITY) is None:
                self._save(self._state().put(lifecycle.launching(record, now)))
                self._launch(record.id)
            elif record.state == "Stopping" and not (engine and engine.alive):
                self._save(self._state().put(lifecycle.gone(record, now)))
            elif engine is not None and not engine.alive:
                ended = lifecycle.exited(record, ENGINE, Exit(code=1), now, tail="", patterns=())
                self._save(self._state().put(ended))
            elif engine is not None and self.world.beat - engine.born >= LOAD_BEATS:
                self._save(self._state().put(lifecycle.judged(record, Readiness(ready=True), now)))

    def _launch(self, shard: str) -> None:
        record = self._state().records[shard]
        assert shard not in self.world.started, f"at most once: {shard} was started again"
        self.world.started.add(shard)
        gpu = record.shard.gpus[0].index
        holder = [one.shard for one in self.engines.values() if one.alive and one.gpu == gpu]
        assert not holder, f"gpu: {self.name}/{gpu} is held by {holder[0]} and given to {shard}"
        identity = ProcessId(pid=len(self.world.started), started=1, boot="boot", token=record.token)
        engine = Engine(identity, shard, record.shard.model_dump_json(), gpu, self.world.beat)
        self.engines[shard] = engine
        spawned = lifecycle.spawned(record, Process(ENGINE, identity))
        self._save(self._state().put(lifecycle.loading(spawned, self.world.now)))


def _gpus(node: str) -> tuple[Gpu, ...]:
    return tuple(Gpu(index=index, uuid=f"{node}-{index}", gpu_class="test") for index in (0, 1))


@dataclass(eq=False)
class Control:
    """A control process. A dead one may still have messages in hand that arrive late."""

    world: World
    name: str
    epoch: Epoch = field(init=False)
    fleet: Fleet = field(default_factory=lambda: Fleet(FAST))
    backoff: Mapping[str, Backoff] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    replicas: tuple[Replica, ...] = ()
    quiet_until: float = 0.0

    def lead(self) -> None:
        """Take the lead, above everything that the store and the agents have heard."""
        store, now = self.world.store, self.world.now
        met = max((machine.disk.heard.number for machine in self.world.machines.values()), default=0)
        store.epoch = max(store.epoch, met) + 1
        self.epoch = Epoch(number=store.epoch, control=self.name)
        self.quiet_until = now + FAST.amnesty
        self.fleet.begin(now)
        for intent in store.intents.values():
            self.fleet.node(intent.shard.node, now)

    def accept(self, node: str, link: Link, register: Register) -> None:
        """A new stream."""
        self.links[node] = link
        self.fleet.node(node, self.world.now).register(register, link, self.epoch, self.world.now)
        link.post(Lead(cluster="c", epoch=self.epoch))

    def step(self) -> None:
        """One beat: take in reports, then passes until nothing more is to be placed."""
        for node, link in self.links.items():
            entry = self.fleet.nodes[node]
            while link.up:
                message = link.up.popleft()
                if isinstance(message, Report) and entry.stream is link:
                    entry.hear(message, self.world.now)
            if not link.open and entry.stream is link:
                entry.stream = None
        while self._one_pass():
            pass

    def _one_pass(self) -> bool:
        store, now = self.world.store, self.world.now
        if store.epoch != self.epoch.number:
            return False  # fenced: a newer leader holds the store
        quiet = now < self.quiet_until
        views = self.fleet.views(self.epoch, now, quiet=quiet)
        actual = Actual(
            epoch=self.epoch,
            nodes=views,
            intents=dict(store.intents),
            backoff=self.backoff,
            known_revisions=frozenset({"1-a"}),
            quiet=quiet,
            stable_after=FAST.stable,
        )
        wanted = desired(self.world.wanted)
        decision = reconcile(wanted, actual, now=now, jitter=0.5, new_replica=self.world.replica())
        for intent in decision.put:
            store.intents[intent.shard.shard] = intent
        for shard in decision.drop:
            store.intents.pop(shard, None)
        self.backoff, self.replicas = decision.backoff, decision.replicas
        for name, view in views.items():
            if view.connected:
                dismiss = decision.dismiss.get(name, frozenset())
                orders = orders_for(view, store.intents, views, self.epoch, dismiss)
                self._send(self.fleet.nodes[name], view, orders)
        return decision.more

    def _send(self, node: Node, view: NodeView, orders: Orders) -> None:
        """What the dispatcher does, without waiting."""
        newest = Stamp(epoch=self.epoch, number=node.number)
        behind = view.applied is None or not view.applied.at_or_above(newest)
        if (orders == node.sent and not behind) or (node.sent is None and not orders):
            return
        node.number, node.sent = node.number + 1, orders
        intents = self.world.store.intents
        for shard in [*(one.shard for one in orders.run), *(order.shard for order in orders.stop)]:
            if intents[shard].number is None:
                intents[shard] = intents[shard].model_copy(update={"number": node.number})
        assign = Assign(
            epoch=self.epoch, number=node.number, run=orders.run, stop=orders.stop, dismiss=orders.dismiss
        )
        if node.stream is not None:
            node.stream.post(assign)


class World:
    """Everything, and the acts that a schedule may choose from."""

    def __init__(self) -> None:
        self.beat = 0
        self.started: set[str] = set()
        self.store = Store()
        self.wanted = {"a": 1, "b": 1}
        self._count = 0
        self.controls: list[Control] = []
        self.machines = {name: Machine(self, name) for name in NODES}
        for machine in self.machines.values():
            machine.start_agent()
        self.new_control()

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self.beat * BEAT

    def token(self) -> str:
        """A token that was never used."""
        self._count += 1
        return f"{self._count:032x}"

    def replica(self) -> str:
        """A replica id that was never used."""
        self._count += 1
        digits = "abcdefghijklmnopqrstuvwxyz234567"
        return "r-" + "".join(digits[(self._count >> 5 * place) % 32] for place in reversed(range(10)))

    def new_control(self) -> None:
        """A control process takes the lead; the one before goes on until its streams break."""
        control = Control(self, f"cp{len(self.controls)}{self.beat}")
        control.lead()
        self.controls.append(control)

    def drop_old_controls(self) -> None:
        """Every control process but the newest dies."""
        for control in self.controls[:-1]:
            for link in control.links.values():
                link.open = False
        del self.controls[:-1]

    def tick(self) -> None:
        """One beat for everybody."""
        self.beat += 1
        for machine in self.machines.values():
            machine.step()
        for control in self.controls:
            control.step()
        self.check()

    def check(self) -> None:
        """What must hold after every beat."""
        for machine in self.machines.values():
            held = [engine.gpu for engine in machine.engines.values() if engine.alive]
            assert len(held) == len(set(held)), f"gpu: {machine.name} runs two engines on one GPU"

    def heal(self) -> None:
        """End every fault, then let the fleet become what is wanted."""
        self.drop_old_controls()
        for machine in self.machines.values():
            machine.cut = False
            if machine.agent is None:
                machine.start_agent()
        for _ in range(300):
            self.tick()
            if self.settled():
                return
        raise AssertionError(f"liveness: wanted {self.wanted}, got {self.running()}")

    def running(self) -> dict[str, int]:
        """Live engines by model."""
        counts: dict[str, int] = {}
        for machine in self.machines.values():
            for engine in machine.engines.values():
                if engine.alive:
                    name = machine.disk.records[engine.shard].shard.model
                    counts[name] = counts.get(name, 0) + 1
        return counts

    def settled(self) -> bool:
        """Whether what runs is what is wanted, and every intent is for something that runs."""
        wanted = {name: count for name, count in self.wanted.items() if count}
        ready = all(replica.state == "Ready" for replica in self.controls[-1].replicas)
        live = sum(self.running().values())
        return ready and self.running() == wanted and len(self.store.intents) == live


__all__ = ["NODES", "World", "replace"]
