"""The node daemon: one task group that adopts, discovers, supervises and reports."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.metadata import version

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus
from llmgw_core.config import AgentConfig
from llmgw_core.plugins import PluginHost
from llmgw_core.ports import AgentPorts
from llmgw_core.spec import HostView, NodeReport

from llmgw_agent.discovery import discover
from llmgw_agent.handle import Tools
from llmgw_agent.launch import Launcher
from llmgw_agent.logs import Logs
from llmgw_agent.reporter import NodeLink
from llmgw_agent.state import StateKeeper
from llmgw_agent.supervisor import Supervisor
from llmgw_agent.uplink import Uplink

log = logging.getLogger(__name__)

REDISCOVER_EVERY = 300.0
DISCOVERY_LIMIT = 120.0
_GOODBYE = 5.0
"""Seconds that the control planes get to take the last report."""
Offload = Callable[[Callable[[], NodeReport]], Awaitable[NodeReport]]


async def in_thread(call: Callable[[], NodeReport]) -> NodeReport:
    """Run discovery, which reads files and waits for commands, beside the event loop."""
    return await to_thread.run_sync(call, abandon_on_cancel=True)


class Agent:
    """The agent of one node. `config` must name `node` and `address` (see `address.resolved`).

    `offload` runs the blocking discovery; a simulation, whose HostView does not block, runs it in place.
    """

    def __init__(
        self,
        config: AgentConfig,
        ports: AgentPorts,
        plugins: PluginHost,
        host: HostView,
        *,
        environ: Mapping[str, str] = os.environ,
        offload: Offload = in_thread,
    ) -> None:
        state_dir = str(config.state_dir)
        logs = Logs(ports.disk, state_dir)
        self._config = config
        self._ports = ports
        self._offload = offload
        self._discover = partial(discover, config, plugins, host, environ)
        self._report: NodeReport | None = None
        self._discovered = anyio.Event()
        self._look_again = anyio.Event()
        self._stop = anyio.Event()
        self._draining = anyio.Event()
        self._leaving = anyio.Event()
        self._drain = anyio.CancelScope()
        self._tools = Tools(
            ports=ports,
            plugins=plugins,
            keeper=StateKeeper(ports.disk, state_dir),
            logs=logs,
            launcher=Launcher(plugins, logs, state_dir, environ),
            timers=config.timers,
            report=self._known_report,
            port_taken=self._note_taken,
        )

    @property
    def keeper(self) -> StateKeeper:
        """The node's state, to be looked at."""
        return self._tools.keeper

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until `stop` is called or it is cancelled; started when adoption is complete.

        Being cancelled leaves the engines running, like a crash. Raises StateDirError and OSError when
        the state directory cannot be used.
        """
        async with anyio.create_task_group() as group:
            supervisor = Supervisor(self._tools, group)
            await supervisor.adopt(await self.keeper.load())
            task_status.started()
            group.start_soon(supervisor.relist_forever)
            group.start_soon(self._discover_forever)
            async with anyio.create_task_group() as uplinks:
                uplinks.start_soon(self._speak, supervisor)
                await self._stop.wait()
                if self._draining.is_set():
                    with self._drain:
                        await supervisor.stop_all("stopped on the node")
                self._leaving.set()
                uplinks.cancel_scope.deadline = anyio.current_time() + _GOODBYE
            group.cancel_scope.cancel()

    def stop(self, drain: bool) -> None:
        """Leave: with `drain` after every engine has been stopped, else leaving them running.

        Without `drain` after it was asked with: whatever still runs is left.
        """
        if drain:
            self._draining.set()
        elif self._draining.is_set():
            self._drain.cancel()
        self._stop.set()

    def rediscover(self) -> None:
        """Look at the node's hardware and engines again, now."""
        self._look_again.set()

    async def _speak(self, supervisor: Supervisor) -> None:
        await self._discovered.wait()
        link = NodeLink(
            ports=self._ports,
            keeper=self.keeper,
            supervisor=supervisor,
            logs=self._tools.logs,
            instance=self._ports.rand.token(),
            version=version("llmgw-agent"),
            node=self._config.node or "",
            report=self._last_report,
            leaving=self._leaving,
            draining=self._draining,
        )
        async with anyio.create_task_group() as group:
            for url in self._config.control_planes:
                group.start_soon(Uplink(url, self._config, link).run)

    async def _discover_forever(self) -> None:
        while True:
            self._look_again = anyio.Event()
            await self._discover_once()
            self._discovered.set()
            with anyio.move_on_after(REDISCOVER_EVERY):
                await self._look_again.wait()

    async def _discover_once(self) -> None:
        old = self._report
        # The first look may take as long as it needs: there is nothing to tell without it.
        with anyio.move_on_after(DISCOVERY_LIMIT if old else None) as limit:
            self._report = self._without_own_ports(await self._offload(self._discover))
        if limit.cancelled_caught and old:
            self._report = old.model_copy(update={"stale": True})
        for problem in self._last_report().problems:
            if old is None or problem not in old.problems:
                log.warning("%s", problem)

    def _without_own_ports(self, report: NodeReport) -> NodeReport:
        """What our own shards listen on is theirs as long as they run, and free as soon as they end."""
        own = {port for record in self.keeper.state.live for port in record.shard.ports}
        return report.model_copy(update={"ports_busy": tuple(p for p in report.ports_busy if p not in own)})

    def _note_taken(self, port: int) -> None:
        """A port that could not be bound is in the report that tells of the failure, and then looked up."""
        if self._report is not None and port not in self._report.ports_busy:
            busy = tuple(sorted({*self._report.ports_busy, port}))
            self._report = self._report.model_copy(update={"ports_busy": busy})
        self.rediscover()

    async def _known_report(self) -> NodeReport:
        await self._discovered.wait()
        return self._last_report()

    def _last_report(self) -> NodeReport:
        if self._report is None:
            raise RuntimeError("asked for the node's report before the first discovery")
        if self._draining.is_set() and not self._report.draining:
            self._report = self._report.model_copy(update={"draining": True})
        return self._report
