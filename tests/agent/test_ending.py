"""The end of a shard whose processes do not want to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import pytest
from llmgw_agent import ending
from llmgw_core.node.state import Process, Record
from llmgw_core.ports import Exit, ProcessId, ProcessSeen
from llmgw_core.spec import Shard

pytestmark = pytest.mark.anyio

ENGINE = ProcessId(10, 100, "boot", "t")
CHILD = ProcessId(11, 101, "boot", "t")
STRANGER = ProcessId(12, 102, "boot", "other")


@dataclass
class Stubborn:
    """Processes that end only by what `deadly` names; `sent` is every signal that reached one."""

    alive_now: set[ProcessId]
    deadly: set[str] = field(default_factory=set)
    sent: list[tuple[int, str, bool]] = field(default_factory=list)

    def alive(self, process: ProcessId) -> bool:
        return process in self.alive_now

    def signal(self, process: ProcessId, name: str, *, group: bool) -> bool:
        if process not in self.alive_now:
            return False
        self.sent.append((process.pid, name, group))
        if name in self.deadly:
            self.alive_now.discard(process)
        return True

    async def wait(self, process: ProcessId) -> Exit:
        while process in self.alive_now:
            await anyio.sleep(0.01)
        return Exit()

    async def scan(self) -> tuple[ProcessSeen, ...]:
        return tuple(ProcessSeen(process, "r-a/0", None) for process in sorted(self.alive_now, key=str))


@pytest.fixture
def record(make_shard: Callable[..., Shard]) -> Record:
    shard = make_shard()
    return Record(shard, "stop", "Stopping", 0.0, "boot", "t", processes=(Process("engine", ENGINE),))


async def end(node: Any, proc: Stubborn, record: Record, on_unkillable: Any = None) -> None:
    with anyio.fail_after(60):
        await ending.end_processes(replace(node.ports(), proc=proc), record, 0.05, on_unkillable)


async def test_what_ends_on_term_gets_nothing_else(node: Any, record: Record) -> None:
    proc = Stubborn({ENGINE, STRANGER}, {"TERM"})
    await end(node, proc, record)
    assert proc.sent == [(10, "TERM", True)]
    assert proc.alive_now == {STRANGER}


async def test_the_stop_signal_is_the_one_of_the_command(node: Any, record: Record) -> None:
    proc = Stubborn({ENGINE}, {"INT"})
    await end(node, proc, replace(record, processes=(Process("engine", ENGINE, "INT"),)))
    assert proc.sent == [(10, "INT", True)]


async def test_kill_reaches_every_process_that_carries_the_token(node: Any, record: Record) -> None:
    proc = Stubborn({ENGINE, CHILD, STRANGER}, {"KILL"})
    await end(node, proc, record)
    assert {(10, "KILL", True), (11, "KILL", False)} <= set(proc.sent)
    assert proc.alive_now == {STRANGER}


async def test_children_of_a_dead_engine_are_asked_before_they_are_killed(node: Any, record: Record) -> None:
    proc = Stubborn({CHILD}, {"TERM"})
    await end(node, proc, record)
    assert proc.sent == [(11, "TERM", False)]


async def test_what_survives_kill_is_told_with_its_pid_once_and_waited_for(
    node: Any, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "AFTER_KILL", 0.1)
    monkeypatch.setattr(ending, "_SWEEP_EVERY", 0.02)
    monkeypatch.setattr(ending, "_SWEEP_UNKILLABLE_EVERY", 0.02)
    proc, told = Stubborn({ENGINE}), []

    async def unkillable(left: str) -> None:
        told.append(left)
        proc.deadly = {"KILL"}  # the driver lets go of it at last

    await end(node, proc, record, unkillable)
    assert told == ["pid 10 (engine)"]
    assert proc.alive_now == set()
