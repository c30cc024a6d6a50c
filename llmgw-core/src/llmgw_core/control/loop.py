"""The control loop: snapshot, reconcile, intents to the store, assignments to agents, table to gateways."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio

from llmgw_core.catalog.model import Catalog
from llmgw_core.control.agents import AgentHub
from llmgw_core.control.dispatcher import Dispatcher
from llmgw_core.control.events import EventLog
from llmgw_core.control.fleet import Fleet
from llmgw_core.control.gateways import GatewayHub
from llmgw_core.control.leader import Leadership
from llmgw_core.inventory.inventory import Inventory
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.placement.plugins import PlacementPlugins
from llmgw_core.placement.result import Placement, Unschedulable
from llmgw_core.ports import Clock, IntentChange, Rand, Store
from llmgw_core.reconcile.backoff import Backoff
from llmgw_core.reconcile.decision import Decision, Event
from llmgw_core.reconcile.reconcile import reconcile
from llmgw_core.reconcile.standing import Standing, standings
from llmgw_core.reconcile.state import FINAL, Actual, Replica
from llmgw_core.spec import EngineInfo, Epoch, Fenced, Intent, StoreError, StoreUnavailable
from llmgw_core.timers import Timers

log = logging.getLogger(__name__)

KEPT_ENDED = 50
MAX_PASSES_AT_ONCE = 100


@dataclass(frozen=True)
class Snapshot:
    """What the last pass saw and decided, for everyone who only looks."""

    catalog: Catalog
    actual: Actual
    replicas: tuple[Replica, ...] = ()
    standings: tuple[Standing, ...] = ()
    placements: Mapping[str, Placement | Unschedulable] = field(default_factory=dict)
    backoff: Mapping[str, Backoff] = field(default_factory=dict)
    at: float = 0.0


class ControlLoop:
    """Owns the intents of this leadership and runs passes: at least every second, at once on a change."""

    def __init__(
        self,
        *,
        store: Store,
        fleet: Fleet,
        hub: AgentHub,
        gateways: GatewayHub,
        leadership: Leadership,
        dispatcher: Dispatcher,
        events: EventLog,
        engines: Mapping[str, EngineInfo],
        plugins: PlacementPlugins | None,
        publish: Callable[[Snapshot], None],
        clock: Clock,
        rand: Rand,
        timers: Timers,
        key_version: int,
    ) -> None:
        self._store, self._fleet, self._hub = store, fleet, hub
        self._leadership, self._dispatcher, self._events = leadership, dispatcher, events
        self._engines, self._plugins = engines, plugins
        self._gateways, self._publish = gateways, publish
        self._clock, self._rand, self._timers = clock, rand, timers
        self._key_version = key_version
        self._wake = anyio.Event()
        self._lead_above: int | None = 0
        self._intents: dict[str, Intent] = {}
        self._backoff: Mapping[str, Backoff] = {}
        self._inventory = Inventory()
        self._known_revisions: frozenset[str] = frozenset()
        self._catalog = Catalog()
        self._ended: list[tuple[float, Replica]] = []
        self._states: dict[str, str] = {}
        self._node_states: dict[str, str] = {}

    def wake(self) -> None:
        """Ask for a pass at once."""
        self._wake.set()

    def use(self, catalog: Catalog, known_revisions: frozenset[str]) -> None:
        """Make `catalog` the desired state. An operator's act ends every backoff: they may have mended it."""
        self._catalog, self._known_revisions = catalog, known_revisions
        self._backoff = {}
        self.wake()

    def ended(self) -> tuple[tuple[float, Replica], ...]:
        """Replicas that ended lately, with the monotonic time of it, oldest first."""
        return tuple(self._ended)

    async def run(self) -> None:
        """Run passes until cancelled."""
        while True:
            with anyio.move_on_after(self._timers.pass_every):
                await self._wake.wait()
            self._wake = anyio.Event()
            try:
                if self._lead_above is not None:
                    await self.lead(self._lead_above)
                await self.passes()
            except Fenced as error:
                self._events.add("fenced", "control plane", str(error))
                self._lead_above = self._leadership.epoch.number
            except StoreError as error:
                self._events.add(
                    "store_unavailable", "store", f"nothing is changed until it answers: {error}"
                )
                await anyio.sleep(self._timers.pass_every)
            except Exception as error:
                # A fault of ours must not end what only looks on: streams, tables and the admin API.
                log.exception("a pass of the control loop failed")
                self._events.add("pass_failed", "control plane", f"{type(error).__name__}: {error}")
                await anyio.sleep(self._timers.pass_every)

    async def lead(self, above: int) -> None:
        """Begin a leadership: a new epoch, the store's intents, and word of it to every agent."""
        # Until all of it is done there is no leader: an epoch that no agent was told of can do nothing.
        self._lead_above = above
        epoch = await self._leadership.take(above)
        self._intents = {intent.shard.shard: intent for intent in await self._store.intents()}
        now = self._clock.monotonic()
        self._fleet.begin(now)
        for intent in self._intents.values():
            self._fleet.expect(intent.shard, now)
        self._hub.lead(epoch)
        self._lead_above = None
        self._events.add("leading", "control plane", f"epoch {epoch.number}")

    async def passes(self) -> None:
        """One pass, and the next at once while there is more to place."""
        met = (self._hub.met, self._gateways.met)
        foreign = [epoch.number for epoch in met if self._leadership.is_foreign(epoch)]
        if foreign:
            await self.lead(max(foreign))
        if self._leadership.was_away():
            self._fleet.forgive(self._clock.monotonic())
        for _ in range(MAX_PASSES_AT_ONCE):
            if not await self._one_pass():
                return
            await anyio.lowlevel.checkpoint()

    async def _one_pass(self) -> bool:
        catalog = self._catalog
        epoch, now = self._leadership.epoch, self._clock.monotonic()
        views = self._fleet.views(epoch, now, quiet=self._leadership.quiet)
        actual = self._actual(views)
        decision = reconcile(
            catalog,
            actual,
            now=now,
            jitter=self._rand.uniform(),
            new_replica=self._rand.replica_id(),
            plugins=self._plugins,
        )
        try:
            await self._enact(catalog, epoch, views, decision)
        except StoreUnavailable:
            # What is seen reaches gateways also while nothing can be decided: a dead engine leaves the table.
            self._show(decision, actual, now)
            raise
        self._tell(decision, actual, now)
        return decision.more

    async def _enact(
        self, catalog: Catalog, epoch: Epoch, views: Mapping[str, NodeView], decision: Decision
    ) -> None:
        change = IntentChange(put=decision.put, drop=decision.drop)
        if change:
            await self._store.write_intents(epoch, change)
            self._intents.update({intent.shard.shard: intent for intent in decision.put})
            for shard in decision.drop:
                self._intents.pop(shard, None)
        if self._catalog is catalog:  # else an operator ended every backoff while the store wrote
            self._backoff, self._inventory = decision.backoff, decision.inventory
        await self._dispatcher.dispatch(epoch, views, self._intents, decision.dismiss)

    def _actual(self, views: Mapping[str, NodeView]) -> Actual:
        return Actual(
            epoch=self._leadership.epoch,
            nodes=views,
            intents=dict(self._intents),
            backoff=self._backoff,
            in_flight=self._gateways.in_flight(),
            still_routed=self._gateways.still_routed(),
            gateways_settled=self._gateways.settled,
            engines=self._engines,
            known_revisions=self._known_revisions,
            quiet=self._leadership.quiet,
            key_version=self._key_version,
            kill_timeout=self._timers.kill,
            unhealthy_limit=3 * self._timers.liveness,
            stable_after=self._timers.stable,
            before=self._inventory,
        )

    def _tell(self, decision: Decision, actual: Actual, now: float) -> None:
        for event in decision.events:
            self._events.put(event)
        self._note_transitions(decision.replicas)
        self._note_nodes(actual.nodes)
        self._keep_ended(decision.replicas, now)
        self._show(decision, actual, now)

    def _show(self, decision: Decision, actual: Actual, now: float) -> None:
        models = standings(self._catalog, decision.replicas, decision.placements, decision.backoff, now)
        self._publish(
            Snapshot(
                self._catalog,
                actual,
                decision.replicas,
                models,
                decision.placements,
                decision.backoff,
                now,
            )
        )

    def _note_transitions(self, replicas: tuple[Replica, ...]) -> None:
        for replica in replicas:
            if self._states.get(replica.id) != replica.state:
                message = f"{replica.state}: {replica.reason}" if replica.reason else replica.state
                self._events.put(Event("replica_state", f"{replica.model}/{replica.id}", message))
        self._states = {replica.id: replica.state for replica in replicas}

    def _note_nodes(self, nodes: Mapping[str, NodeView]) -> None:
        for name, node in nodes.items():
            state = node_state(node)
            if self._node_states.get(name) != state:
                self._node_states[name] = state
                self._events.put(Event("node_state", name, state))

    def _keep_ended(self, replicas: tuple[Replica, ...], now: float) -> None:
        known = {replica.id for _, replica in self._ended}
        self._ended += [
            (now, replica) for replica in replicas if replica.state in FINAL and replica.id not in known
        ]
        del self._ended[:-KEPT_ENDED]


def node_state(node: NodeView) -> str:
    """A node's state in one word."""
    if node.freshness != "ready":
        return node.freshness
    if not node.speaks:
        return "expected"
    return "ready" if node.connected else "disconnected"
