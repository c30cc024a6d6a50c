"""An event loop whose clock is a counter: sleeping costs nothing, and nothing depends on the machine."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


class Deadlock(Exception):
    """Every task waits for another one: in virtual time nothing would ever happen again."""


class _Selector(selectors.SelectSelector):
    """Never waits: a time limit moves the clock instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("no task can go on and no timer is set")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop over a virtual clock that starts at 0."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual.now


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run a program to its end in virtual time. Raises Deadlock when it hangs."""
    options: Mapping[str, Any] = {"loop_factory": VirtualTimeLoop}
    return anyio.run(main, backend="asyncio", backend_options=dict(options))
