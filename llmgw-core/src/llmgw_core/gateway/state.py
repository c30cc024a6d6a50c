"""What a gateway process knows: all in memory, read by every request, written by the uplinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

from llmgw_core.gateway.keyring import Keyring
from llmgw_core.spec import Keys, Secrets, Table
from llmgw_core.traffic.table import EndpointTable, merge


class GatewayState:
    """Table, keys, and which of our requests are where. Belongs to one event loop; no method waits."""

    def __init__(self) -> None:
        self.table = EndpointTable()
        self.keyring = Keyring()
        self.in_flight: dict[str, set[str]] = {}
        self.cluster: str | None = None
        self.stopping = False
        self._has_table = False
        self.changes = 0
        """Grows with every change that a control plane wants to hear of."""
        self._changed = anyio.Event()
        self._cuts: set[Callable[[], None]] = set()

    def take_table(self, message: Table) -> None:
        """Follow a table, if it is to be followed."""
        self.table = merge(self.table, message)
        self._has_table = True
        self.note_change()

    def take_keys(self, message: Keys, now: float) -> None:
        """Learn clients' keys; `now` is the monotonic clock."""
        self.keyring.take_keys(message, now)

    def take_secrets(self, message: Secrets) -> None:
        """Learn the secrets that clients' and engines' keys are made with."""
        self.keyring.take_secrets(message)

    def not_ready(self) -> str | None:
        """Why this gateway should get no traffic, None when it should."""
        if self.stopping:
            return "stopping"
        if not self._has_table or not self.keyring.complete:
            return "waiting for the control plane"
        return None

    @contextmanager
    def hold(self, replica: str, request: str) -> Iterator[None]:
        """Count a request as working on a replica for as long as the block runs, however it ends."""
        self.in_flight.setdefault(replica, set()).add(request)
        self.note_change()
        try:
            yield
        finally:
            held = self.in_flight[replica]
            held.discard(request)
            if not held:
                del self.in_flight[replica]
            self.note_change()

    def note_change(self) -> None:
        """Wake whoever reports to a control plane."""
        self.changes += 1
        self._changed.set()
        self._changed = anyio.Event()

    async def changed(self, since: int, timeout: float) -> None:
        """Return once `changes` is above `since`, or after `timeout` seconds."""
        if self.changes == since:
            with anyio.move_on_after(timeout):
                await self._changed.wait()

    @contextmanager
    def cuttable(self, cut: Callable[[], None]) -> Iterator[None]:
        """Have `cut` called if the gateway must end while the block runs."""
        self._cuts.add(cut)
        try:
            yield
        finally:
            self._cuts.discard(cut)

    def cut_all(self) -> None:
        """Break off every request: the time for draining is over."""
        for cut in tuple(self._cuts):
            cut()
