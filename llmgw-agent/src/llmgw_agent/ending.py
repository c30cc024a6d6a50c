"""Ends every process of a shard: its stop signal, then KILL, until none is left anywhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import anyio
from llmgw_core.node.state import Record
from llmgw_core.ports import AgentPorts, ProcessId

AFTER_KILL = 10.0
"""Seconds after KILL at which what is still there is called unkillable (a process in the kernel)."""
_SWEEP_EVERY = 0.2
_SWEEP_UNKILLABLE_EVERY = 5.0


async def end_processes(
    ports: AgentPorts, record: Record, grace: float, on_unkillable: Callable[[str], Awaitable[object]]
) -> None:
    """Return when no process of `record` is left: none that it lists and none that carries its token.

    `grace` is seconds from the stop signal to KILL. `on_unkillable` is told once, with the pids, when
    KILL did not help; the wait goes on.
    """
    clock = ports.clock
    await _ask_to_stop(ports, record)
    deadline = clock.monotonic() + grace
    await _wait_for_listed(ports, record, grace)
    while clock.monotonic() < deadline and await _left(ports, record):  # noqa: ASYNC110 - nobody tells
        await anyio.sleep(_SWEEP_EVERY)
    deadline = clock.monotonic() + AFTER_KILL
    told = False
    while left := await _left(ports, record):
        _kill(ports, record, left)
        if clock.monotonic() >= deadline and not told:
            told = True
            names = ", ".join(f"pid {process.pid} ({name})" for process, name in left.items())
            await on_unkillable(names)
        await anyio.sleep(_SWEEP_UNKILLABLE_EVERY if told else _SWEEP_EVERY)
    await _reap(ports, record)


async def _ask_to_stop(ports: AgentPorts, record: Record) -> None:
    asked = [
        ports.proc.signal(process.id, process.stop_signal, group=True)
        for process in reversed(record.processes)
    ]
    if not any(asked):
        # Only descendants are left. With a living leader they were reached through its group, and must
        # not be asked twice: many servers take a second TERM for "at once".
        for process_id in await _left(ports, record):
            ports.proc.signal(process_id, "TERM", group=False)


def _kill(ports: AgentPorts, record: Record, left: Mapping[ProcessId, str]) -> None:
    for process in record.processes:
        ports.proc.signal(process.id, "KILL", group=True)
    for process_id in left:
        ports.proc.signal(process_id, "KILL", group=False)


async def _wait_for_listed(ports: AgentPorts, record: Record, grace: float) -> None:
    with anyio.move_on_after(grace):
        for process in record.processes:
            await ports.proc.wait(process.id)


async def _left(ports: AgentPorts, record: Record) -> dict[ProcessId, str]:
    """What is still there, with the name of the command that it is or descends from."""
    left = {process.id: process.name for process in record.processes if ports.proc.alive(process.id)}
    for seen in await ports.proc.scan():
        if seen.id.token == record.token:
            left.setdefault(seen.id, seen.process)
    return left


async def _reap(ports: AgentPorts, record: Record) -> None:
    """Collect the exit of our own children, so that no zombie is left."""
    for process in record.processes:
        await ports.proc.wait(process.id)
