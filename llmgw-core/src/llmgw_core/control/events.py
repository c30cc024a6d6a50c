"""What happened lately, for people: bounded, newest last."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from llmgw_core.ports import Clock
from llmgw_core.reconcile.decision import Event


@dataclass(frozen=True)
class Happened:
    """An event and when it was, in monotonic seconds."""

    at: float
    event: Event


class EventLog:
    """The last events of this control process."""

    def __init__(self, clock: Clock, *, keep: int = 1000) -> None:
        self._clock = clock
        self._events: deque[Happened] = deque(maxlen=keep)

    def add(self, kind: str, subject: str, message: str) -> None:
        """Note that something happened to a replica, model, node or catalog."""
        self.put(Event(kind, subject, message))

    def put(self, event: Event) -> None:
        """Note an event, unless it repeats the one before."""
        if not self._events or self._events[-1].event != event:
            self._events.append(Happened(self._clock.monotonic(), event))

    def recent(self) -> tuple[Happened, ...]:
        """Every event that is kept, oldest first."""
        return tuple(self._events)
