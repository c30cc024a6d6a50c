"""The engine processes of a state directory, as the machine knows them: no daemon has to answer for it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from llmgw_core.cli.up.child import start_time

OWNER, SHARD, SPEC = "LLMGW_OWNER", "LLMGW_SHARD", "LLMGW_SPEC"
"""What an agent gives every process of an engine: its own state directory, whose process it is, and what
it was started as."""


@dataclass(frozen=True)
class EngineProcess:
    """One process. `started` is in clock ticks since boot, so that its pid cannot be another's later."""

    model: str
    pid: int
    started: int


def engine_processes(agent_dir: Path) -> tuple[EngineProcess, ...]:
    """Every living process that an agent with this state directory has started, by pid. Blocks shortly."""
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    seen = (_look(pid, str(agent_dir)) for pid in pids)
    return tuple(engine for engine in seen if engine is not None)


def _look(pid: int, owner: str) -> EngineProcess | None:
    started = start_time(pid)
    environment = _environment(pid)
    shard = environment.get(SHARD)
    if started is None or not shard or environment.get(OWNER) != owner:
        return None
    return EngineProcess(_model(environment.get(SPEC, "")) or shard.partition(":")[0], pid, started)


def _environment(pid: int) -> dict[str, str]:
    """Empty for a process that is gone or another user's."""
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in content.split(b"\0"))
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


def _model(spec: str) -> str:
    try:
        return str(json.loads(spec)["model"])
    except (ValueError, KeyError, TypeError):
        return ""
