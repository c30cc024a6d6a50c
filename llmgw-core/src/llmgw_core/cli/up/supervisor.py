"""The supervisor: keeps its children running, takes over those of one that died, ends them in order."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from llmgw_core.cli.up.child import Child, ChildId, ChildSpec, start, take_over
from llmgw_core.cli.up.children_file import read_children, write_children
from llmgw_core.cli.up.last_words import last_words
from llmgw_core.config import split_address
from llmgw_core.spec.errors import StateDirError

AFTER_SECONDS = 20.0
"""How long a first start waits for the address that should be there before."""
LEAVE_SECONDS = 40.0
"""How long a child with an outdated configuration may take to leave before it is killed."""
STEADY_SECONDS = 60.0
"""A child that ran this long has proved itself: its next end is a first one again."""


@dataclass(frozen=True)
class ChildState:
    """How a child stands. `ended` tells the last end and `words` what it said before; `failures` counts ends
    in a row that came soon; `retry_in` is seconds to the next start."""

    pid: int | None = None
    adopted: bool = False
    ended: str | None = None
    words: str = ""
    failures: int = 0
    retry_in: float | None = None


def retry_delay(ends: int) -> float:
    """Seconds before the next start after `ends` ends in a row: at once, then 1, 2, 4 … 30."""
    return 0.0 if ends <= 1 else min(2.0 ** (ends - 2), 30.0)


class KeptChild:
    """One child, kept running until it is told to end."""

    def __init__(self, spec: ChildSpec, environment: Mapping[str, str], changed: Callable[[], None]) -> None:
        self.spec = spec
        self.state = ChildState()
        self.child: Child | None = None
        self.code: int | None = None
        """Exit code of its last end; None before it, and where it cannot be known."""
        self._environment = environment
        self._changed = changed
        self._ending = anyio.Event()
        self._over = anyio.Event()

    async def keep(self, known: ChildId | None) -> None:
        """Take `known` over or start anew, and start again whenever it ends, until `end` was called."""
        try:
            if not self._same(known):
                await self._replace_outdated(known)
                await self._wait_for_address()
            ends = 0
            while not self._ending.is_set():
                began = anyio.current_time()
                ended = await self._run_once(known)
                known = None
                ends = 1 if anyio.current_time() - began >= STEADY_SECONDS else ends + 1
                if not self._ending.is_set():
                    await self._pause(ended, ends)
        finally:
            self._over.set()

    async def once_more(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start it for its last work after it has ended for good; return when it has ended again."""
        self._over = anyio.Event()
        task_status.started()
        try:
            await self._run_once(None)
        finally:
            self._over.set()

    def retire(self) -> None:
        """Do not start it again when it ends."""
        self._ending.set()

    def end(self, number: signal.Signals) -> None:
        """Send a signal, and do not start it again."""
        self.retire()
        if self.child is not None:
            self.child.signal(number)

    async def over(self) -> None:
        """Wait until it has ended for good."""
        await self._over.wait()

    @property
    def is_over(self) -> bool:
        """Whether it has ended for good."""
        return self._over.is_set()

    def _same(self, known: ChildId | None) -> bool:
        return known is not None and known.fingerprint == self.spec.fingerprint

    async def _wait_for_address(self) -> None:
        if self.spec.after is None:
            return
        host, port = split_address(self.spec.after)
        with anyio.move_on_after(AFTER_SECONDS):
            while not self._ending.is_set():
                try:
                    stream = await anyio.connect_tcp(host, port)
                except OSError:
                    await anyio.sleep(0.05)
                else:
                    await stream.aclose()
                    return

    async def _replace_outdated(self, known: ChildId | None) -> None:
        """End a child of an earlier supervisor that runs with another configuration."""
        old = take_over(known) if known is not None else None
        if old is None:
            return
        old.signal(self.spec.leave)
        with anyio.move_on_after(LEAVE_SECONDS) as limit:
            await old.gone()
        if limit.cancelled_caught:
            old.signal(signal.SIGKILL)
            await old.gone()
        old.close()

    async def _run_once(self, known: ChildId | None) -> str:
        self.code = None
        try:
            child = (take_over(known) if known and self._same(known) else None) or start(
                self.spec, self._environment
            )
        except OSError as error:
            return f"could not be started: {error.strerror}"
        self.child = child
        self._become(replace(self.state, pid=child.id.pid, adopted=child.adopted, retry_in=None))
        try:
            self.code = await child.gone()
        finally:
            self.child = None
            child.close()
        return _how_it_ended(self.code)

    async def _pause(self, ended: str, ends: int) -> None:
        seconds = retry_delay(ends)
        # Read now: the next one writes to the same log, and why this one ended would be lost.
        words = last_words(self.spec.log)
        self._become(ChildState(ended=ended, words=words, failures=ends, retry_in=seconds))
        with anyio.move_on_after(seconds):
            await self._ending.wait()

    def _become(self, state: ChildState) -> None:
        self.state = state
        self._changed()


class Supervisor:
    """All children of one state directory, in the order in which they start."""

    def __init__(self, specs: Sequence[ChildSpec], file: Path, environment: Mapping[str, str]) -> None:
        self._file = file
        self.children = {spec.name: KeptChild(spec, environment, self._write) for spec in specs}
        self._known: dict[str, ChildId] = {}

    async def run(self) -> None:
        """Keep every child until each was told to end."""
        self._known = read_children(self._file)
        async with anyio.create_task_group() as group:
            for name, child in self.children.items():
                group.start_soon(child.keep, self._known.get(name), name=name)

    def states(self) -> dict[str, ChildState]:
        """How each child stands."""
        return {name: kept.state for name, kept in self.children.items()}

    def _write(self) -> None:
        # A child that has not been looked at yet keeps its row: this supervisor may die as well.
        running = {name: kept.child.id for name, kept in self.children.items() if kept.child is not None}
        self._known.update(running)
        with suppress(StateDirError):  # a full disk costs the next take-over, never what runs now
            write_children(self._file, self._known)


def live_children(file: Path) -> frozenset[int]:
    """Pids of children that an earlier supervisor left running."""
    pids = set()
    for identity in read_children(file).values():
        child = take_over(identity)
        if child is not None:
            pids.add(identity.pid)
            child.close()
    return frozenset(pids)


def child_environment() -> dict[str, str]:
    """The environment of children: this process's, without the address at which systemd waits for it."""
    return {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "ended"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
