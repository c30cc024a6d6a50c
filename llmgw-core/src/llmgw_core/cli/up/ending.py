"""How an `up` ends: the agent with its engines, then the gateway, then the control plane."""

from __future__ import annotations

import signal
from collections.abc import Callable

import anyio

from llmgw_core.cli.up.supervisor import KeptChild, Supervisor
from llmgw_core.cli.up.watch import EngineProcess, Watcher

PATIENCE = 240.0
"""Seconds that a child may take to end by itself; an agent drains its engines first."""
LONG = 10.0
"""After that many seconds a person should hear what it waits for."""
HURRIED = 10.0
"""The same after a second Ctrl-C."""
NAMES = {"agent": "agent", "gateway": "gateway", "server": "control plane"}


class Ending:
    """Ends all children, saying what it does; `hurry` (a second Ctrl-C) cuts the waiting short."""

    def __init__(self, supervisor: Supervisor, watcher: Watcher, say: Callable[[str], None]) -> None:
        self._children = supervisor.children
        self._watcher = watcher
        self._say = say
        self._hurry = anyio.Event()

    def hurry(self) -> None:
        """End everything at once."""
        self._hurry.set()

    async def run(self, *, keep_engines: bool) -> None:
        """Return when every child is gone."""
        engines = self._watcher.running_engines()
        if engines and not keep_engines:
            self._say(f"\nstopping {', '.join(sorted({engine.model for engine in engines}))}…")
        else:
            self._say("\nstopping…")
        await self._end("agent", signal.SIGUSR1 if keep_engines else signal.SIGTERM)
        self._say(_engine_words(engines, keep_engines))
        for name in ("gateway", "server"):
            await self._end(name, signal.SIGTERM)
        self._say("everything stopped; bye" if not _alive(engines) else "bye")

    async def _end(self, name: str, number: signal.Signals) -> None:
        child = self._children[name]
        child.end(number)
        if await self._over(child, LONG, until_hurry=True):
            return
        if not self._hurry.is_set():
            self._say(f"{NAMES[name]}: waiting for what still runs; Ctrl-C again stops at once")
            if await self._over(child, PATIENCE, until_hurry=True):
                return
        self._say(f"{NAMES[name]}: told to stop at once")
        child.end(signal.SIGTERM)
        if not await self._over(child, HURRIED, until_hurry=False):
            self._say(f"{NAMES[name]}: does not react; killed")
            child.end(signal.SIGKILL)
            await child.over()

    async def _over(self, child: KeptChild, seconds: float, *, until_hurry: bool) -> bool:
        """Whether the child ended within the time, or before somebody is in a hurry."""
        over = False

        async def wait() -> None:
            nonlocal over
            await child.over()
            over = True
            group.cancel_scope.cancel()

        async def give_up() -> None:
            await self._hurry.wait()
            group.cancel_scope.cancel()

        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                if until_hurry:
                    group.start_soon(give_up)
        return over


def _alive(engines: tuple[EngineProcess, ...]) -> list[EngineProcess]:
    return [engine for engine in engines if engine.alive()]


def _engine_words(engines: tuple[EngineProcess, ...], keep_engines: bool) -> str:
    left = _alive(engines)
    ended = len(engines) - len(left)
    words = [f"{ended} engine process{'' if ended == 1 else 'es'} stopped"] if ended else []
    if left:
        listed = ", ".join(f"{engine.model} (pid {engine.pid})" for engine in left)
        kept = "kept" if keep_engines else "still running"
        words.append(f"{kept}: {listed}; the next `llmgw up` on this state directory adopts it")
    return "; ".join(words) or "no engine was running"
