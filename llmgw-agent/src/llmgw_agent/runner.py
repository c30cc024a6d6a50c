"""One shard from its start (or its adoption) to its end: a task that lives as long as its processes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import anyio
from anyio.abc import TaskGroup
from llmgw_core.node import lifecycle
from llmgw_core.node.state import Process, Record
from llmgw_core.ports import Exit
from llmgw_core.spec import Failure, Launch, PluginError, Readiness

from llmgw_agent.ending import end_processes
from llmgw_agent.handle import RecordHandle, Tools
from llmgw_agent.probes import Prober, prober
from llmgw_agent.starting import LaunchFailed, Starting
from llmgw_agent.work_dir import remove_work_dir

log = logging.getLogger(__name__)

_FAILED_GRACE = 5.0
"""Seconds that what is left of a failed shard gets before KILL: it holds GPUs and serves nobody."""
JUDGED_BYTES = 64 * 1024
"""Of a log that are searched for a known failure: vLLM tells the cause some 10 KiB before its last line."""


class Runner:
    """Runs one shard. `stop` is told that its record was set to Stopping."""

    def __init__(self, shard: str, tools: Tools) -> None:
        self._handle = RecordHandle(shard, tools)
        self._tools = tools
        self._ports = tools.ports
        self._stopped = anyio.Event()
        self._prober: Prober | None = None

    @property
    def record(self) -> Record:
        """The shard's record as it is now."""
        return self._handle.record

    def stop(self) -> None:
        """Its record says Stopping: end its processes."""
        self._stopped.set()

    async def start(self) -> None:
        """Launch it and stay with it until its last process is gone."""
        await self._live(self._launch)

    async def resume(self) -> None:
        """Stay with an adopted shard until its last process is gone."""
        await self._live(self._adopt)

    async def probe(self) -> Readiness:
        """Ask the three questions now."""
        if self._prober is None:
            return Readiness(ready=False, reason=f"{self.record.state}: there is nothing to ask yet")
        return await self._prober.readiness(self.record.key)

    async def check(self, process: Process) -> None:
        """The regular look has not found this process: believe it only when it is really gone."""
        if not self._ports.proc.alive(process.id):
            await self._exited(process, Exit())

    async def _live(self, begin: Callable[[TaskGroup], Awaitable[None]]) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._leave_when_dying, group.cancel_scope)
            if self.record.state not in {"Stopping", "Unkillable"}:
                await self._begin(begin, group)
        if not self.record.ended:
            await self._end()
        else:  # it failed before anything of it ran, perhaps after its secret files were written
            await self._clean_work_dir()

    async def _begin(self, begin: Callable[[TaskGroup], Awaitable[None]], group: TaskGroup) -> None:
        try:
            await begin(group)
        except LaunchFailed as error:
            await self._handle.happened(partial(_launch_failed, error.failure))
            self._stopped.set()

    async def _leave_when_dying(self, scope: anyio.CancelScope) -> None:
        await self._stopped.wait()
        scope.cancel()

    async def _end(self) -> None:
        record = self.record
        grace = record.shard.timeouts.kill if record.grace is None else record.grace
        if record.failure:
            grace = min(grace, _FAILED_GRACE)

        async def unkillable(left: str) -> None:
            log.error("%s: %s does not end after KILL", record.id, left)
            await self._handle.happened(lambda record, now: lifecycle.unkillable(record, left, now))

        await end_processes(self._ports, record, grace, unkillable)
        await self._clean_work_dir()
        ended = await self._handle.happened(lifecycle.gone)
        log.info("%s: %s %s", ended.id, ended.state, ended.detail)

    async def _clean_work_dir(self) -> None:
        await remove_work_dir(self._ports.disk, self._tools.launcher.work_dir(self.record.id))

    async def _launch(self, group: TaskGroup) -> None:
        starting = Starting(self._handle, self._tools)
        await starting.wait_for_room()
        launch, commands = await starting.prepare()
        try:
            self._prober = self._new_prober(launch)
        except PluginError as error:
            raise LaunchFailed(lifecycle.failure("agent", str(error))) from None
        for command in commands:
            group.start_soon(self._watch_exit, await starting.start(command, launch))
        await self._handle.happened(lifecycle.loading)
        group.start_soon(self._watch_health)

    async def _adopt(self, group: TaskGroup) -> None:
        for process in self.record.processes:
            group.start_soon(self._watch_exit, process)
        record = self.record
        try:
            launch = self._tools.launcher.launch(record, await self._tools.report())
            self._prober = self._new_prober(launch)
        except PluginError as error:
            # It runs and is left to run; only nobody can say how it is.
            log.warning("%s was adopted but cannot be probed: %s", record.id, error)
            return
        group.start_soon(self._watch_health)

    def _new_prober(self, launch: Launch) -> Prober:
        return prober(self.record, launch, self._tools.plugins, self._ports.net)

    # --- watching -----------------------------------------------------------------------------------

    async def _watch_exit(self, process: Process) -> None:
        await self._exited(process, await self._ports.proc.wait(process.id))

    async def _exited(self, process: Process, end: Exit) -> None:
        tail = await self._tools.logs.tail(self.record, process.name, JUDGED_BYTES)
        info = self._tools.plugins.engines.get(self.record.shard.engine)
        patterns = info.failure_patterns if info else ()
        await self._handle.happened(
            lambda record, now: lifecycle.exited(record, process.name, end, now, tail=tail, patterns=patterns)
        )
        self._stopped.set()

    async def _watch_health(self) -> None:
        timers, prober = self._tools.timers, self._prober
        thorough = self.record.adopted
        while prober is not None:
            if thorough or self.record.state == "Loading":
                readiness = await prober.readiness(self.record.key)
                progress = await self._last_line()
                await self._handle.happened(partial(_asked, readiness, progress))
            else:
                problem = await prober.liveness(self.record.key)
                await self._handle.happened(partial(_looked, problem))
            thorough = False
            await anyio.sleep(timers.probe_loading if self.record.state == "Loading" else timers.liveness)

    async def _last_line(self) -> str:
        tail = await self._tools.logs.tail(self.record, "engine", 512)
        return next((line.strip()[:200] for line in reversed(tail.splitlines()) if line.strip()), "")


def _launch_failed(failure: Failure, record: Record, now: float) -> Record:
    return lifecycle.failing(record, failure, now)


def _asked(readiness: Readiness, progress: str, record: Record, now: float) -> Record:
    if record.state == "Loading":
        record = replace(record, progress_text=progress)
    return lifecycle.judged(record, readiness, now)


def _looked(problem: str | None, record: Record, now: float) -> Record:
    return lifecycle.alive(record, problem, now)
