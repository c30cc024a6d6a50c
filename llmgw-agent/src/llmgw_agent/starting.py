"""Starts the processes of one shard: room, plugin, ports, intent on disk, fork. Nothing after that."""

from __future__ import annotations

import logging

import anyio
from llmgw_core.node import lifecycle
from llmgw_core.node.resources import Capacity, conflict
from llmgw_core.node.state import Process, Record
from llmgw_core.spec import Command, Failure, FailureClass, Launch, PluginError, Unsupported, WaitFor

from llmgw_agent.handle import RecordHandle, Tools
from llmgw_agent.launch import engine_problem

log = logging.getLogger(__name__)

_POLL = 0.2


class LaunchFailed(Exception):
    """The shard cannot be started; carries the failure that is reported."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class Starting:
    """The launch of one shard; every step may be cancelled between two forks, never within one."""

    def __init__(self, handle: RecordHandle, tools: Tools) -> None:
        self._handle = handle
        self._tools = tools
        self._ports = tools.ports

    async def wait_for_room(self) -> None:
        """Until what stops on this node has freed what the shard needs. Raises LaunchFailed."""
        timeout = self._handle.record.shard.timeouts.wait
        with anyio.move_on_after(timeout):
            while True:
                changed = self._tools.keeper.changed
                report = await self._tools.report()
                found = conflict(
                    self._tools.keeper.state,
                    self._handle.record.shard,
                    Capacity(cpus=report.cpus, memory_mib=report.memory_mib),
                )
                if found is None:
                    return
                await changed.wait()
        raise _failed("agent", f"waited {timeout:g} s in vain; {self._handle.record.detail}")

    async def prepare(self) -> tuple[Launch, tuple[Command, ...]]:
        """Find out all that can be found out without starting anything. Raises LaunchFailed."""
        record = self._handle.record
        report = await self._tools.report()
        if problem := engine_problem(report, record.shard.engine):
            raise _failed("configuration", problem)
        try:
            launch = self._tools.launcher.launch(record, report)
            commands = self._tools.launcher.commands(record.shard, launch)
        except Unsupported as error:
            raise _failed("configuration", str(error)) from None
        except PluginError as error:
            raise _failed("agent", str(error)) from None
        for port in record.shard.ports:
            if not await self._ports.net.can_bind(record.shard.address, port):
                self._tools.port_taken(port)
                raise _failed("port_in_use", f"{record.shard.address}:{port} is in use on this node")
        try:
            await self._ports.disk.make_dir(launch.work_dir)
            await self._ports.disk.make_dir(launch.log_dir)
        except OSError as error:
            raise _failed("agent", f"its directories cannot be made: {error}") from None
        return launch, commands

    async def start(self, command: Command, launch: Launch) -> Process:
        """Start one command, after the port that it waits for. Raises LaunchFailed."""
        await self._wait_for_port(command.wait_for)
        return await self._spawn(command, launch)

    async def _wait_for_port(self, wait: WaitFor | None) -> None:
        if wait is None:
            return
        target = f"{wait.host}:{wait.port}"
        await self._handle.happened(lambda record, now: lifecycle.waiting(record, f"waits for {target}", now))
        with anyio.move_on_after(wait.timeout) as waiting:
            while not await self._ports.net.listening(wait.host, wait.port):  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(_POLL)
        if waiting.cancelled_caught:
            raise _failed("rendezvous", f"nothing listened at {target} within {wait.timeout:g} s")

    async def _spawn(self, command: Command, launch: Launch) -> Process:
        try:
            record = await self._handle.committed(lifecycle.launching)
            if record.state != "Starting":
                await anyio.sleep_forever()  # a stop has overtaken the launch, and cancels it
            with anyio.CancelScope(shield=True):
                process = await self._fork(record, command, launch)
                # Durable like the intent: a crash right after the fork is covered by the process scan.
                await self._handle.happened(lambda record, _: lifecycle.spawned(record, process))
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument, a `=` in a variable's name
            raise _failed("agent", f"{command.name} cannot be started: {error}") from None
        return process

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


def _failed(kind: FailureClass, detail: str) -> LaunchFailed:
    return LaunchFailed(lifecycle.failure(kind, detail))
