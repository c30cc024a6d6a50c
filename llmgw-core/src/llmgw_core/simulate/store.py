"""The store of a simulated world: in memory, fenced, and it outlives the control plane."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from llmgw_core.ports import CatalogRow, IntentChange, StoreFacts
from llmgw_core.simulate.trace import Trace
from llmgw_core.spec import NO_EPOCH, ApiKey, Epoch, Fenced, Intent, UsageRow


class SimStore:
    """Port Store. Every call is one transaction that succeeds or is fenced."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._epoch = NO_EPOCH
        self._intents: dict[str, Intent] = {}
        self._catalogs: list[CatalogRow] = []
        self._usage: dict[str, UsageRow] = {}

    async def facts(self) -> StoreFacts:
        """The same for every world: nothing here is secret."""
        await anyio.lowlevel.checkpoint()
        return StoreFacts("simulated", {1: b"engine secret"}, b"pepper")

    async def take_lead(self, control: str, above: int) -> Epoch:
        """Become leader."""
        await anyio.lowlevel.checkpoint()
        self._epoch = Epoch(number=max(self._epoch.number, above) + 1, control=control)
        self._trace.add("store", f"epoch {self._epoch.number}")
        return self._epoch

    async def intents(self) -> tuple[Intent, ...]:
        """Every intent by shard id."""
        await anyio.lowlevel.checkpoint()
        return tuple(self._intents[shard] for shard in sorted(self._intents))

    async def write_intents(self, epoch: Epoch, change: IntentChange) -> None:
        """Apply a change, if `epoch` still leads."""
        await anyio.lowlevel.checkpoint()
        if epoch != self._epoch:
            raise Fenced(f"epoch {epoch.number} is not {self._epoch.number}")
        for intent in change.put:
            self._intents[intent.shard.shard] = intent
            self._trace.add("store", f"{intent.shard.shard} {intent.goal} {intent.number}")
        for shard in change.drop:
            self._intents.pop(shard, None)
            self._trace.add("store", f"{shard} dropped")

    async def latest_catalog(self) -> CatalogRow | None:
        """The newest catalog."""
        await anyio.lowlevel.checkpoint()
        return self._catalogs[-1] if self._catalogs else None

    async def save_catalog(self, text: str, origin: str, token: str) -> CatalogRow:
        """Store a catalog."""
        await anyio.lowlevel.checkpoint()
        row = CatalogRow(f"{len(self._catalogs) + 1}-{token}", text, origin)
        self._catalogs.append(row)
        return row

    async def catalog_revisions(self) -> frozenset[str]:
        """Every revision."""
        await anyio.lowlevel.checkpoint()
        return frozenset(row.revision for row in self._catalogs)

    async def api_keys(self) -> tuple[ApiKey, ...]:
        """There are no clients yet."""
        await anyio.lowlevel.checkpoint()
        return ()

    async def add_usage(self, rows: Sequence[UsageRow]) -> int:
        """Store rows once."""
        await anyio.lowlevel.checkpoint()
        new = [row for row in rows if row.id not in self._usage]
        self._usage.update({row.id: row for row in new})
        return len(new)
