"""Wiring of the control plane: which object knows which, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version

import anyio
from anyio.abc import TaskStatus

from llmgw_core.catalog.dry_run import Commands
from llmgw_core.catalog.model import Catalog
from llmgw_core.control.agents import AgentHub
from llmgw_core.control.catalogs import CatalogKeeper, CatalogSource
from llmgw_core.control.dispatcher import Dispatcher
from llmgw_core.control.events import EventLog
from llmgw_core.control.fleet import Fleet
from llmgw_core.control.gateways import GatewayHub
from llmgw_core.control.leader import Leadership
from llmgw_core.control.loop import ControlLoop, Snapshot
from llmgw_core.control.tables import TableMaker
from llmgw_core.placement.plugins import PlacementPlugins
from llmgw_core.ports import Clock, Rand, Store, StoreFacts
from llmgw_core.reconcile.state import Actual
from llmgw_core.spec import NO_EPOCH, EngineInfo, Epoch, StoreError
from llmgw_core.timers import Timers

KEYS_AGAIN = 1.0
"""Seconds until keys that could not be read from the store are tried again."""


class ControlPlane:
    """One control process: everything but its sockets."""

    def __init__(
        self,
        store: Store,
        facts: StoreFacts,
        *,
        engines: Mapping[str, EngineInfo],
        plugins: PlacementPlugins | None,
        commands: Commands | None,
        catalog: CatalogSource | None,
        clock: Clock,
        rand: Rand,
        timers: Timers,
    ) -> None:
        control = rand.token()[:12]
        self._store, self.clock, self.cluster = store, clock, facts.cluster
        self.events = EventLog(clock)
        self.snapshot = Snapshot(Catalog(), Actual(epoch=NO_EPOCH))
        self.ready = False
        self._keys_due = False
        self._one_reload, self._one_publisher = anyio.Lock(), anyio.Lock()
        self._fleet = Fleet(timers)
        self._leadership = Leadership(store, control, clock=clock, timers=timers)
        self.agents = AgentHub(
            self._fleet,
            cluster=facts.cluster,
            control=control,
            epoch=lambda: self._leadership.epoch,
            is_foreign=self._leadership.is_foreign,
            wake=self._wake,
            events=self.events,
            clock=clock,
            rand=rand,
            timers=timers,
        )
        self.gateways = GatewayHub(
            store,
            facts,
            control=control,
            is_foreign=self._leadership.is_foreign,
            events=self.events,
            clock=clock,
            timers=timers,
        )
        self._tables = TableMaker(self.gateways)
        self._catalogs = CatalogKeeper(
            store, engines, commands=commands, source=catalog, rand=rand, events=self.events
        )
        self.loop = ControlLoop(
            store=store,
            fleet=self._fleet,
            hub=self.agents,
            gateways=self.gateways,
            leadership=self._leadership,
            dispatcher=Dispatcher(self._fleet, store, facts.engine_secrets, clock=clock, timers=timers),
            events=self.events,
            engines=engines,
            plugins=plugins,
            publish=self._publish,
            clock=clock,
            rand=rand,
            timers=timers,
            key_version=max(facts.engine_secrets, default=0),
        )

    @property
    def version(self) -> str:
        """Version of llmgw-core."""
        return version("llmgw-core")

    @property
    def epoch(self) -> Epoch:
        """The epoch in office."""
        return self._leadership.epoch

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Take the lead and run passes until cancelled; started means that it leads.

        Raises CatalogError or ConfigError when there is no catalog to begin with, StoreError when the
        store cannot be used.
        """
        in_use = await self._catalogs.start()
        self.loop.use(in_use.catalog, in_use.revisions)
        await self.publish_keys()
        await self.loop.lead(above=0)
        task_status.started()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_keys_published)
            await self.loop.run()

    async def reload_catalog(self) -> str:
        """Re-read the catalog file and return the revision in use; a bad file raises and changes nothing."""
        async with self._one_reload:  # two at once could put the older one in force last
            in_use = await self._catalogs.reload()
            self.loop.use(in_use.catalog, in_use.revisions)
        return in_use.catalog.revision

    async def publish_keys(self) -> None:
        """Send the store's API keys to every gateway. When it raises, it is tried again until it is done."""
        self._keys_due = True
        async with self._one_publisher:  # an older list sent last would bring a revoked key back
            keys = await self._store.api_keys()
            self._keys_due = False
            self.gateways.publish_keys(keys)

    async def _keep_keys_published(self) -> None:
        while True:
            await anyio.sleep(KEYS_AGAIN)
            if self._keys_due:
                with suppress(StoreError):
                    await self.publish_keys()

    def _wake(self) -> None:
        self.loop.wake()

    def _publish(self, snapshot: Snapshot) -> None:
        self.snapshot, self.ready = snapshot, True
        self._tables.publish(snapshot)
