"""One shard from its start (or its adoption) to its end: a task that lives as long as its processes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

import anyio
from anyio.abc import TaskGroup
from llmgw_core.node import lifecycle
from llmgw_core.node.resources import Capacity, conflict
from llmgw_core.node.state import Process, Record
from llmgw_core.plugins import PluginHost
from llmgw_core.ports import AgentPorts, Exit
from llmgw_core.spec import (
    Command,
    Failure,
    FailureClass,
    Launch,
    NodeReport,
    PluginError,
    Readiness,
    Unsupported,
    WaitFor,
)
from llmgw_core.timers import Timers

from llmgw_agent.ending import end_processes
from llmgw_agent.launch import Launcher, engine_problem
from llmgw_agent.logs import Logs
from llmgw_agent.probes import Prober, prober
from llmgw_agent.state import StateKeeper

log = logging.getLogger(__name__)

_POLL = 0.2
_FAILED_GRACE = 5.0
"""Seconds that what is left of a failed shard gets before KILL: it holds GPUs and serves nobody."""


@dataclass(frozen=True)
class Tools:
    """What every runner works with."""

    ports: AgentPorts
    plugins: PluginHost
    keeper: StateKeeper
    logs: Logs
    launcher: Launcher
    timers: Timers
    report: Callable[[], Awaitable[NodeReport]]


class LaunchFailed(Exception):
    """The shard cannot be started; carries the failure that is reported."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class Runner:
    """Runs one shard. `stop` is told that its record was set to Stopping."""

    def __init__(self, shard: str, tools: Tools) -> None:
        self._shard = shard
        self._tools = tools
        self._ports = tools.ports
        self._stopped = anyio.Event()
        self._prober: Prober | None = None

    @property
    def record(self) -> Record:
        """The shard's record as it is now."""
        return self._tools.keeper.state.records[self._shard]

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

    async def _begin(self, begin: Callable[[TaskGroup], Awaitable[None]], group: TaskGroup) -> None:
        try:
            await begin(group)
        except LaunchFailed as error:
            await self._event(partial(_launch_failed, error.failure))
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
            await self._event(lambda record, now: lifecycle.unkillable(record, left, now))

        await end_processes(self._ports, record, grace, unkillable)
        await self._clean_work_dir()
        ended = await self._event(lifecycle.gone)
        log.info("%s: %s %s", ended.id, ended.state, ended.detail)

    async def _clean_work_dir(self) -> None:
        """Secret files must not outlive the engine that they were for."""
        directory = self._tools.launcher.work_dir(self._shard)
        try:
            for name in await self._ports.disk.names(directory):
                await self._ports.disk.remove(f"{directory}/{name}")
            await self._ports.disk.remove(directory)
        except OSError as error:
            log.warning("%s: its work directory cannot be removed: %s", self._shard, error)

    # --- launch -------------------------------------------------------------------------------------

    async def _launch(self, group: TaskGroup) -> None:
        await self._wait_for_room()
        launch, commands = await self._prepare()
        for command in commands:
            await self._wait_for_port(command.wait_for)
            await self._spawn(group, command, launch)
        await self._event(lifecycle.loading)
        group.start_soon(self._watch_health)

    async def _wait_for_room(self) -> None:
        """What stops on this node frees what the shard needs, or its wait ends."""
        timeout = self.record.shard.timeouts.wait
        with anyio.move_on_after(timeout):
            while True:
                changed = self._tools.keeper.changed
                report = await self._tools.report()
                found = conflict(
                    self._tools.keeper.state,
                    self.record.shard,
                    Capacity(cpus=report.cpus, memory_mib=report.memory_mib),
                )
                if found is None:
                    return
                await changed.wait()
        raise _failed("agent", f"waited {timeout:g} s in vain; {self.record.detail}")

    async def _prepare(self) -> tuple[Launch, tuple[Command, ...]]:
        record = self.record
        report = await self._tools.report()
        if problem := engine_problem(report, record.shard.engine):
            raise _failed("configuration", problem)
        try:
            launch = self._tools.launcher.launch(record, report)
            commands = self._tools.launcher.commands(record.shard, launch)
            self._prober = prober(record, launch, self._tools.plugins, self._ports.net)
        except Unsupported as error:
            raise _failed("configuration", str(error)) from None
        except PluginError as error:
            raise _failed("agent", str(error)) from None
        for port in record.shard.ports:
            if not await self._ports.net.can_bind(record.shard.address, port):
                raise _failed("port_in_use", f"{record.shard.address}:{port} is in use on this node")
        try:
            await self._ports.disk.make_dir(launch.work_dir)
            await self._ports.disk.make_dir(launch.log_dir)
        except OSError as error:
            raise _failed("agent", f"its directories cannot be made: {error}") from None
        return launch, commands

    async def _wait_for_port(self, wait: WaitFor | None) -> None:
        if wait is None:
            return
        target = f"{wait.host}:{wait.port}"
        await self._event(lambda record, now: lifecycle.waiting(record, f"waits for {target}", now))
        with anyio.move_on_after(wait.timeout) as waiting:
            while not await self._ports.net.listening(wait.host, wait.port):  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(_POLL)
        if waiting.cancelled_caught:
            raise _failed("rendezvous", f"nothing listened at {target} within {wait.timeout:g} s")

    async def _spawn(self, group: TaskGroup, command: Command, launch: Launch) -> None:
        try:
            record = await self._tools.keeper.commit(
                self._shard, lambda record: lifecycle.launching(record, self._now())
            )
            if record.state != "Starting":
                await anyio.sleep_forever()  # a stop has overtaken the launch, and cancels it
            with anyio.CancelScope(shield=True):
                process = await self._fork(record, command, launch)
                # Durable like the intent: a crash right after the fork is covered by the process scan.
                await self._event(lambda record, _: lifecycle.spawned(record, process))
        except OSError as error:
            raise _failed("agent", f"{command.name} cannot be started: {error}") from None
        group.start_soon(self._watch_exit, process)

    async def _fork(self, record: Record, command: Command, launch: Launch) -> Process:
        for path, content in command.secret_files.items():
            await self._ports.disk.write(path, content.get_secret_value().encode())
        identity = await self._ports.proc.spawn(
            command.argv,
            self._tools.launcher.environment(record, command, launch),
            token=record.token,
            work_dir=launch.work_dir,
            output=self._tools.logs.path(record.id, command.name),
        )
        log.info("%s: %s started as pid %d", record.id, command.name, identity.pid)
        return Process(command.name, identity, command.stop_signal)

    async def _adopt(self, group: TaskGroup) -> None:
        for process in self.record.processes:
            group.start_soon(self._watch_exit, process)
        record = self.record
        try:
            launch = self._tools.launcher.launch(record, await self._tools.report())
            self._prober = prober(record, launch, self._tools.plugins, self._ports.net)
        except PluginError as error:
            # It runs and is left to run; only nobody can say how it is.
            log.warning("%s was adopted but cannot be probed: %s", record.id, error)
            return
        group.start_soon(self._watch_health)

    # --- watching -----------------------------------------------------------------------------------

    async def _watch_exit(self, process: Process) -> None:
        await self._exited(process, await self._ports.proc.wait(process.id))

    async def _exited(self, process: Process, end: Exit) -> None:
        tail = await self._tools.logs.tail(self.record, process.name, lifecycle.TAIL_BYTES)
        info = self._tools.plugins.engines.get(self.record.shard.engine)
        patterns = info.failure_patterns if info else ()
        await self._event(
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
                await self._event(partial(_asked, readiness, progress))
            else:
                problem = await prober.liveness(self.record.key)
                await self._event(partial(_looked, problem))
            thorough = False
            await anyio.sleep(timers.probe_loading if self.record.state == "Loading" else timers.liveness)

    async def _last_line(self) -> str:
        tail = await self._tools.logs.tail(self.record, "engine", 512)
        return next((line.strip()[:200] for line in reversed(tail.splitlines()) if line.strip()), "")

    async def _event(self, event: Callable[[Record, float], Record]) -> Record:
        return await self._tools.keeper.change(self._shard, lambda record: event(record, self._now()))

    def _now(self) -> float:
        return self._ports.clock.monotonic()


def _failed(kind: FailureClass, detail: str) -> LaunchFailed:
    return LaunchFailed(lifecycle.failure(kind, detail))


def _launch_failed(failure: Failure, record: Record, now: float) -> Record:
    return lifecycle.failing(record, failure, now)


def _asked(readiness: Readiness, progress: str, record: Record, now: float) -> Record:
    if record.state == "Loading":
        record = replace(record, progress_text=progress)
    return lifecycle.judged(record, readiness, now)


def _looked(problem: str | None, record: Record, now: float) -> Record:
    return lifecycle.alive(record, problem, now)
