"""Who listens on a TCP port of this machine, as far as /proc shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LISTEN = "0A"


@dataclass(frozen=True)
class Listener:
    """A process that listens on a port."""

    pid: int
    program: str


def listener(port: int) -> Listener | None:
    """The process that listens on `port`; None when nobody does or it belongs to somebody else."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    if not sockets:
        return None
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _holds(entry, sockets):
            return Listener(int(entry.name), _program(entry))
    return None


def _inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError), open(table, encoding="ascii") as lines:
            for line in list(lines)[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def _holds(process: Path, sockets: set[str]) -> bool:
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                if os.readlink(descriptor) in sockets:
                    return True
    return False


def _program(process: Path) -> str:
    with suppress(OSError):
        return (process / "comm").read_text(errors="replace").strip()
    return "a process that has just ended"
