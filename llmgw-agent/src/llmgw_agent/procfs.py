"""What /proc says about a process. Every reader answers None for one that is gone or may not be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_ENVIRON_LIMIT = 4 * 1024 * 1024
_DEAD = frozenset({"Z", "X", "x"})


@dataclass(frozen=True)
class Stat:
    """State letter, session, and start time in clock ticks since boot."""

    state: str
    session: int
    started: int

    @property
    def dead(self) -> bool:
        """A zombie: it has ended, only its exit status is left."""
        return self.state in _DEAD


def boot_id() -> str:
    """Identity of this boot of the machine."""
    return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def pids() -> Iterator[int]:
    """Every process there is, in no order that means anything."""
    return (int(name) for name in os.listdir(PROC) if name.isdigit())


def stat(pid: int) -> Stat | None:
    """The fields of /proc/PID/stat that identify a process."""
    text = _read(pid, "stat", 4096)
    if not text:
        return None
    # The name in parentheses may itself hold spaces and parentheses, so fields count from its end.
    fields = text.rpartition(b")")[2].split()
    return Stat(fields[0].decode(), int(fields[3]), int(fields[19]))


def environ(pid: int) -> dict[str, str] | None:
    """The environment that the process was started with; empty while it is ending."""
    content = _read(pid, "environ", _ENVIRON_LIMIT)
    if content is None:
        return None
    pairs = (item.partition(b"=") for item in content.split(b"\0") if b"=" in item)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


def _read(pid: int, name: str, limit: int) -> bytes | None:
    try:
        with open(PROC / str(pid) / name, "rb", buffering=0) as file:
            pieces = []
            while limit > 0 and (piece := file.read(limit)):
                pieces.append(piece)
                limit -= len(piece)
            return b"".join(pieces)
    except OSError:
        # EACCES also for root (pid 1 of some containers), ENOENT and ESRCH for one that has just ended.
        return None
