"""The life of one shard on its node: each function is one event, and gives the record after it. Pure.

Pending → Starting → Loading → Ready ⇄ Unhealthy → Draining → Stopping → Stopped
Stopping with a failure set ends as Failed; what survives KILL is Unkillable until it is gone.
An event that no longer fits the state (a probe answered while it is being stopped) changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from llmgw_core.node.state import Process, Record
from llmgw_core.ports import Exit
from llmgw_core.spec.engine import FailurePattern, Readiness
from llmgw_core.spec.status import AgentGoal, AgentState, Failure, FailureClass

UNHEALTHY_AFTER = 3
"""Liveness probes that fail in a row before a shard is called Unhealthy: one may be lost to a pause."""
TAIL_BYTES = 2048
_DYING: frozenset[AgentState] = frozenset({"Stopping", "Unkillable", "Stopped", "Failed"})
_BEFORE_READY: frozenset[AgentState] = frozenset({"Pending", "Starting", "Loading"})


def waiting(record: Record, detail: str, now: float) -> Record:
    """Its next command must wait for something (a port, or what another shard still holds)."""
    return _moved(record, "Pending", now, detail=detail) if record.state in _BEFORE_READY else record


def launching(record: Record, now: float) -> Record:
    """The intent to fork its next command; must be on disk before the fork."""
    if record.state not in _BEFORE_READY:
        return record
    return _moved(record, "Starting", now, launched=True, detail="")


def spawned(record: Record, process: Process) -> Record:
    """One of its commands runs; kept whatever the state, since it must be ended with the shard."""
    return replace(record, processes=(*record.processes, process))


def loading(record: Record, now: float) -> Record:
    """Every process of it exists."""
    return _moved(record, "Loading", now) if record.state in _BEFORE_READY else record


def judged(record: Record, readiness: Readiness, now: float) -> Record:
    """The answers to the startup, readiness and inference probes."""
    if record.state != "Loading":
        return alive(record, None if readiness.ready else readiness.reason, now)
    return _well(record, now) if readiness.ready else replace(record, detail=readiness.reason)


def alive(record: Record, problem: str | None, now: float) -> Record:
    """One liveness probe: its problem, or None when it was answered well. Never ends a shard."""
    if record.state not in {"Ready", "Unhealthy", "Draining"}:
        return record
    if problem is None:
        return _well(record, now)
    misses = record.misses + 1
    if misses < UNHEALTHY_AFTER or record.state == "Draining":
        return replace(record, misses=misses)
    return _moved(record, "Unhealthy", now, misses=misses, detail=problem)


def aimed(record: Record, goal: AgentGoal, now: float) -> Record:
    """The leader names it again, with this goal (`run` or `drain`); a stop is never taken back."""
    if record.state in _DYING or record.goal in {goal, "stop"}:
        return record
    record = replace(record, goal=goal)
    if goal == "drain" and record.state in {"Ready", "Unhealthy"}:
        return _moved(record, "Draining", now)
    return _moved(record, "Ready", now) if goal == "run" and record.state == "Draining" else record


def asked_to_stop(record: Record, reason: str, grace: float, now: float) -> Record:
    """It was named in a stop, or is stopped on the node itself."""
    if record.state in _DYING:
        return replace(record, goal="stop") if not record.ended else record
    wish = {"goal": "stop", "grace": grace, "detail": reason}
    return _moved(record, "Stopping" if record.launched else "Stopped", now, **wish)


def exited(
    record: Record, name: str, end: Exit, now: float, *, tail: str, patterns: Iterable[FailurePattern]
) -> Record:
    """One of its commands is gone though nobody asked for it: the shard has failed."""
    if record.state in _DYING:
        return record
    known = _known(tail, patterns) if record.state in _BEFORE_READY and end.signal != "KILL" else None
    kind, hint = (known.pattern.failure, known.pattern.hint) if known else _unknown(end)
    # One that was killed had no last words: the last line is only what it was doing, maybe for somebody.
    line = known.line if known else _last_line(tail) if end.code is not None else ""
    detail = f"{name} {_how(end)}: {line[:300]}" if line else f"{name} {_how(end)}"
    failure = Failure(
        failure=kind, detail=detail, exit_code=end.code, signal=end.signal, tail=tail[-TAIL_BYTES:], hint=hint
    )
    return failing(record, failure, now)


def failing(record: Record, failure: Failure, now: float) -> Record:
    """It has failed; what still runs of it is ended first, so that Failed frees what it held."""
    if record.state in _DYING:
        return record
    state: AgentState = "Stopping" if record.processes else "Failed"
    return _moved(record, state, now, failure=failure, detail=failure.detail)


def unkillable(record: Record, left: str, now: float) -> Record:
    """KILL was sent and `left` is still there; it keeps what it holds."""
    if record.state != "Stopping":
        return record
    return _moved(record, "Unkillable", now, detail=f"still there after KILL: {left}")


def gone(record: Record, now: float) -> Record:
    """No process of it is left."""
    if record.state not in {"Stopping", "Unkillable"}:
        return record
    if record.failure:
        return _moved(record, "Failed", now, detail=record.failure.detail, progress_text="")
    return _moved(record, "Stopped", now, progress_text="")


def failure(kind: FailureClass, detail: str, hint: str = "") -> Failure:
    """A failure that is not the exit of a process."""
    return Failure(failure=kind, detail=detail, hint=hint)


def _well(record: Record, now: float) -> Record:
    state: AgentState = "Draining" if record.goal == "drain" else "Ready"
    return _moved(record, state, now, misses=0, detail="", progress_text="")


def _moved(record: Record, state: AgentState, now: float, **changes: Any) -> Record:
    since = record.since if record.state == state else now
    return replace(record, state=state, since=since, **changes)


@dataclass(frozen=True)
class _Known:
    """A failure that the plugin knows, and the line that shows it: engines' last lines often say less."""

    pattern: FailurePattern
    line: str


def _known(tail: str, patterns: Iterable[FailurePattern]) -> _Known | None:
    for pattern in patterns:
        try:
            found = re.search(pattern.pattern, tail)
        except re.error:
            continue  # a plugin's own mistake must not hide that the engine is gone
        if found:
            start = tail.rfind("\n", 0, found.start()) + 1
            return _Known(pattern, tail[start:].partition("\n")[0].strip())
    return None


def _unknown(end: Exit) -> tuple[FailureClass, str]:
    if end.signal == "KILL":
        return "killed", "the kernel's out-of-memory killer does this too: see dmesg"
    return ("killed" if end.signal == "TERM" else "crash"), ""


def _last_line(tail: str) -> str:
    return next((line.strip() for line in reversed(tail.splitlines()) if line.strip()), "")


def _how(end: Exit) -> str:
    if end.signal:
        return f"was ended by signal {end.signal}"
    if end.code is not None:
        return f"exited with code {end.code}"
    return "is gone; how it ended is not known, since this agent did not start it"
