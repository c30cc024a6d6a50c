"""How an `up` ends: the agent with its engines, then the gateway, then the control plane."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import anyio
from anyio import CancelScope

from llmgw_core.cli.up.engines import EngineProcess
from llmgw_core.cli.up.reaction import catches, motionless
from llmgw_core.cli.up.supervisor import KeptChild, Supervisor
from llmgw_core.spec.errors import LlmgwError

PATIENCE = 240.0
"""Seconds that a child may take to end by itself; an agent drains its engines first."""
LONG = 10.0
"""After that many seconds a person should hear what it waits for."""
SILENT = 15.0
"""Seconds without any movement after which a child is taken for stuck."""
HURRIED = 10.0
"""How long a child may take after a second Ctrl-C."""
WAKING = 15.0
"""How long an agent that was just started may take until it can be told to stop."""
NAMES = {"agent": "agent", "gateway": "gateway", "server": "control plane"}


class EnginesLeft(LlmgwError):
    """Raised when engines run on though everything was to be stopped."""

    def __init__(self, engines: Sequence[EngineProcess]) -> None:
        pids = " ".join(str(engine.pid) for engine in engines)
        super().__init__(
            f"still running: {listed(engines)}",
            fix=f"stop by hand: kill {pids}; else the next `llmgw up` on this state directory adopts it",
        )


class Ending:
    """Ends all children, saying what it does; `hurry` (a second Ctrl-C) cuts the waiting short."""

    def __init__(
        self,
        supervisor: Supervisor,
        engines: Callable[[], Awaitable[tuple[EngineProcess, ...]]],
        say: Callable[[str], None],
    ) -> None:
        self._children = supervisor.children
        self._engines = engines
        self._say = say
        self._hurry = anyio.Event()

    def hurry(self) -> None:
        """End everything at once."""
        self._hurry.set()

    async def run(self, *, keep_engines: bool) -> None:
        """Return when every child is gone. Raises EnginesLeft when engines run that were not to be kept."""
        before = await self._engines()
        if before and not keep_engines:
            self._say(f"\nstopping {', '.join(sorted({engine.model for engine in before}))}…")
        else:
            self._say("\nstopping…")
        await (self._end("agent", signal.SIGUSR1) if keep_engines else self._end_with_engines())
        left = await self._engines()
        self._say(_engine_words(before, left, keep_engines))
        for name in ("gateway", "server"):
            await self._end(name, signal.SIGTERM)
        if left and not keep_engines:
            raise EnginesLeft(left)
        self._say("bye" if left else "everything stopped; bye")

    async def _end_with_engines(self) -> None:
        """End the agent, which stops the engines first; one that cannot any more is started once more."""
        agent = self._children["agent"]
        ran = agent.child is not None
        await self._wake(agent)
        await self._end("agent", signal.SIGTERM)
        if (ran and agent.code == 0) or self._hurry.is_set() or not await self._engines():
            return
        self._say("agent: started once more, to stop the engines")
        async with anyio.create_task_group() as group:
            await group.start(agent.once_more)
            await self._wake(agent)
            await self._end("agent", signal.SIGTERM)

    async def _wake(self, agent: KeptChild) -> None:
        """Wait until the agent hears TERM: before, it would die of it and leave the engines."""
        agent.retire()
        with anyio.move_on_after(WAKING):
            while agent.child is not None and not self._hurry.is_set():
                if catches(agent.child.id.pid, signal.SIGTERM):
                    return
                await anyio.sleep(0.05)

    async def _end(self, name: str, number: signal.Signals) -> None:
        child = self._children[name]
        child.end(number)
        if await self._stuck(child, PATIENCE, partial(self._remind, name)):
            self._say(f"{NAMES[name]}: does not react; killed")
            child.end(signal.SIGKILL)
        elif not child.is_over:
            self._say(f"{NAMES[name]}: told to stop at once")
            child.end(signal.SIGTERM)
            with anyio.move_on_after(HURRIED):
                await child.over()
            if not child.is_over:
                self._say(f"{NAMES[name]}: does not react; killed")
                child.end(signal.SIGKILL)
        await child.over()

    async def _remind(self, name: str) -> None:
        await anyio.sleep(LONG)
        self._say(f"{NAMES[name]}: waiting for what still runs; Ctrl-C again stops at once")

    async def _stuck(
        self, child: KeptChild, seconds: float, remind: Callable[[], Coroutine[Any, Any, None]]
    ) -> bool:
        """Wait until it is over, the time is, or somebody is in a hurry; True when it does not move."""
        stuck = False

        async def until(happens: Callable[[], Awaitable[object]], scope: CancelScope) -> None:
            await happens()
            scope.cancel()

        async def look() -> None:
            nonlocal stuck
            if child.child is None:
                await anyio.sleep_forever()
            else:
                await motionless(child.child.id.pid, SILENT)
                stuck = True

        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as group:
                group.start_soon(remind)
                for happens in (child.over, self._hurry.wait, look):
                    group.start_soon(until, happens, group.cancel_scope)
        return stuck and not child.is_over


def listed(engines: Sequence[EngineProcess]) -> str:
    """Engines with their pids, for a person."""
    return ", ".join(f"{engine.model} (pid {engine.pid})" for engine in engines)


def _engine_words(before: Sequence[EngineProcess], left: Sequence[EngineProcess], keep_engines: bool) -> str:
    ended = len(set(before) - set(left))
    words = [f"{ended} engine process{'' if ended == 1 else 'es'} stopped"] if ended else []
    if left and keep_engines:
        words.append(f"kept: {listed(left)}; the next `llmgw up` on this state directory adopts it")
    elif left:
        words.append(f"still running: {listed(left)}")
    return "; ".join(words) or "no engine was running"
