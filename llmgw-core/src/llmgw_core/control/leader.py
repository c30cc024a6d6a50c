"""Leadership of one control process: its epoch, and the amnesty after it began or we were away."""

from __future__ import annotations

from llmgw_core.ports import Clock, Store
from llmgw_core.spec import NO_EPOCH, Epoch
from llmgw_core.timers import Timers

MAX_AHEAD = 1_000_000
"""Leaderships that a restored store may have forgotten."""


class Leadership:
    """The epoch in office. With SQLite there is one control process, so it always leads."""

    def __init__(self, store: Store, control: str, *, clock: Clock, timers: Timers) -> None:
        self._store, self._control = store, control
        self._clock, self._timers = clock, timers
        self.epoch: Epoch = NO_EPOCH
        self._quiet_until = 0.0
        self._last_pass: float | None = None

    @property
    def quiet(self) -> bool:
        """Whether the amnesty lasts: no verdict on nodes, no stop of unmatched shards."""
        return self._clock.monotonic() < self._quiet_until

    def is_foreign(self, heard: Epoch) -> bool:
        """Whether somebody heard a leader that is not this one, and not below it.

        A number out of all proportion is nobody's leadership: believed, it would use up the numbers.
        """
        ahead = heard.number - self.epoch.number
        if ahead == 0:
            return heard.control not in ("", self.epoch.control)
        return 0 < ahead <= MAX_AHEAD

    async def take(self, above: int) -> Epoch:
        """Begin a new leadership, above every epoch that was met. Raises StoreUnavailable."""
        self.epoch = await self._store.take_lead(self._control, above)
        self._begin_amnesty()
        return self.epoch

    def was_away(self) -> bool:
        """Call once per pass: whether this process was itself paused since the last one.

        Evidence gathered in a pause is none: every node looks silent to one who slept.
        """
        now, last = self._clock.monotonic(), self._last_pass
        self._last_pass = now
        if last is None or now - last <= self._timers.self_demote:
            return False
        self._begin_amnesty()
        return True

    def _begin_amnesty(self) -> None:
        self._quiet_until = self._clock.monotonic() + self._timers.amnesty
