"""Whether a process can still react to anything: the kernel knows, however deaf the process is."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import anyio

LOOK_EVERY = 0.5


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for the signal: until then it would just die of it."""
    caught = _status(pid, "SigCgt")
    return bool(caught) and bool(int(caught, 16) >> (number - 1) & 1)


async def motionless(pid: int, seconds: float) -> None:
    """Return once the main thread of a process has not run at all for so long: it is stopped or stuck.

    A daemon's event loop wakes for its timers every few seconds, whatever it waits for.
    """
    seen: tuple[str, ...] = ()
    since = anyio.current_time()
    while anyio.current_time() - since < seconds:
        switches = tuple(_status(pid, f"{kind}_ctxt_switches") for kind in ("voluntary", "nonvoluntary"))
        if switches != seen:
            seen, since = switches, anyio.current_time()
        await anyio.sleep(LOOK_EVERY)


def _status(pid: int, field: str) -> str:
    """A field of /proc/PID/status; empty when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return ""
    found = re.search(rf"^{field}:\s*(\S+)", text, re.MULTILINE)
    return found[1] if found else ""
