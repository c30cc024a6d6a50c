"""Carries out what the rules decide: starts, adopts and ends shards, each in a task of its own."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import anyio
from anyio.abc import TaskGroup
from llmgw_core.node import lifecycle
from llmgw_core.node.adoption import Adoption, adopt
from llmgw_core.node.effects import Effect, Forget, Start, Stop
from llmgw_core.node.relist import relist
from llmgw_core.node.state import NodeState, Record
from llmgw_core.ports import ProcessSeen
from llmgw_core.spec import Readiness

from llmgw_agent.handle import Tools
from llmgw_agent.runner import Runner
from llmgw_agent.work_dir import remove_work_dir

log = logging.getLogger(__name__)


class Supervisor:
    """The shards of this node. Its tasks live in `group`, which ends with the agent, not with an engine."""

    def __init__(self, tools: Tools, group: TaskGroup) -> None:
        self._tools = tools
        self._ports = tools.ports
        self._group = group
        self._runners: dict[str, Runner] = {}

    async def adopt(self, saved: NodeState) -> None:
        """Take over what runs, end what has to go, and make the result durable. Raises OSError."""
        proc = self._ports.proc
        found: Adoption = adopt(saved, await proc.scan(), proc.boot_id(), self._ports.clock.monotonic())
        await self._tools.keeper.update(lambda _: found.state)
        for note in found.notes:
            log.warning("%s", note)
        self._kill(found.kill)
        for shard in (*found.watch, *found.end):
            runner = self._add(shard)
            if shard in found.end:
                runner.stop()
            else:
                log.info("%s adopted", shard)
            self._group.start_soon(self._run, shard, runner.resume)

    def apply(self, effects: Iterable[Effect]) -> None:
        """Begin what an assignment asks for."""
        for effect in effects:
            match effect:
                case Start(shard):
                    self._group.start_soon(self._run, shard, self._add(shard).start)
                case Stop(shard):
                    self._end(shard)
                case Forget(shard):
                    self._group.start_soon(self._forget, shard)

    async def stop_all(self, reason: str) -> None:
        """End every shard of this node, and return when all are gone."""
        while live := self._tools.keeper.state.live:
            changed = self._tools.keeper.changed
            for record in live:
                await self._tools.keeper.change(record.id, partial(self._stopped, reason))
                self._end(record.id)
            if self._tools.keeper.state.live:
                await changed.wait()

    async def probe(self, shard: str) -> Readiness:
        """Ask a shard now whether it is ready."""
        runner = self._runners.get(shard)
        if runner is None:
            return Readiness(ready=False, reason=f"{shard} does not run on this node")
        return await runner.probe()

    async def relist_forever(self) -> None:
        """Look regularly at what really runs, and write what the disk has refused before."""
        while True:
            await anyio.sleep(self._tools.timers.liveness)
            await self._tools.keeper.retry()
            seen = await self._ports.proc.scan()
            found = relist(self._tools.keeper.state, seen)
            for shard, process in found.ended:
                if runner := self._runners.get(shard):
                    await runner.check(process)
            self._kill(found.strangers)

    def _stopped(self, reason: str, record: Record) -> Record:
        now = self._ports.clock.monotonic()
        return lifecycle.asked_to_stop(record, reason, record.shard.timeouts.kill, now)

    def _add(self, shard: str) -> Runner:
        runner = self._runners[shard] = Runner(shard, self._tools)
        return runner

    def _end(self, shard: str) -> None:
        if runner := self._runners.get(shard):
            runner.stop()

    async def _run(self, shard: str, life: Callable[[], Awaitable[None]]) -> None:
        await life()
        self._runners.pop(shard, None)

    async def _forget(self, shard: str) -> None:
        # Also of a shard whose end no agent saw, such as one that a reboot of the machine ended.
        await remove_work_dir(self._ports.disk, self._tools.launcher.work_dir(shard))
        try:
            await self._tools.logs.forget(shard)
        except OSError as error:
            log.warning("logs of %s cannot be removed: %s", shard, error)

    def _kill(self, strangers: Iterable[ProcessSeen]) -> None:
        for stranger in strangers:
            log.warning("pid %d of %s belongs to no shard; it is killed", stranger.id.pid, stranger.shard)
            self._ports.proc.signal(stranger.id, "KILL", group=False)
