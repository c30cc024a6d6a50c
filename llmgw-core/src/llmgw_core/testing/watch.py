"""Sees whether code reaches out to the machine: files, programs, sockets, sleep."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from unittest import mock

__all__ = ["watched"]

_REACHING_OUT = (
    "open",
    "os.exec",
    "os.fork",
    "os.listdir",
    "os.posix_spawn",
    "os.scandir",
    "os.system",
    "socket.",
    "subprocess.",
)
_blocks: list[tuple[int, list[str]]] = []


@contextmanager
def watched() -> Iterator[list[str]]:
    """Everything that this thread does to the machine inside of the block, as text; empty for pure code.

    `from time import sleep` escapes it: before Python 3.14 the interpreter does not tell of sleeping.
    """
    _install()
    seen: list[str] = []
    _blocks.append((threading.get_ident(), seen))
    try:
        with mock.patch.object(time, "sleep", lambda seconds: seen.append(f"time.sleep({seconds})")):
            yield seen
    finally:
        _blocks.pop()


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if _blocks and event.startswith(_REACHING_OUT) and _blocks[-1][0] == threading.get_ident():
        _blocks[-1][1].append(f"{event}{arguments[:1]!r}"[:200])


@cache
def _install() -> None:
    """Once: an audit hook stays for good."""
    sys.addaudithook(_audit)
