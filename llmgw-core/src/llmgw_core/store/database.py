"""The store (port Store) on SQLite: opens the database, and joins what the other modules do into one port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from llmgw_core.credentials import api_key, key_hash
from llmgw_core.ports import CatalogRow, Clock, IntentChange, Rand, StoreFacts
from llmgw_core.spec import ApiKey, Epoch, Intent, UsageRow
from llmgw_core.store import catalogs, intents, keys, leadership, secrets, usage
from llmgw_core.store.connection import Database, open_database
from llmgw_core.store.keys import KeyFacts
from llmgw_core.store.location import database_path
from llmgw_core.store.migrate import upgrade
from llmgw_core.store.tables import ApiKeyRow
from llmgw_core.store.usage import UsageTotal


@asynccontextmanager
async def open_store(where: str | Path, clock: Clock, rand: Rand) -> AsyncIterator[SqlStore]:
    """Migrate and open the database at a path or `sqlite:///` URL; made when nothing is there.

    Raises StoreNewer, or StoreError with one sentence about what is wrong with the file.
    """
    path = database_path(where)
    await anyio.to_thread.run_sync(upgrade, path)
    async with open_database(path) as database:
        yield SqlStore(database, clock, rand)


class SqlStore:
    """Port Store, and what administrators ask: keys and usage.

    Every method is one transaction and may raise StoreUnavailable; nothing was changed then.
    """

    def __init__(self, database: Database, clock: Clock, rand: Rand) -> None:
        self._database = database
        self._clock = clock
        self._rand = rand

    async def facts(self) -> StoreFacts:
        """Cluster id and secrets; made on first use."""
        async with self._database.writing() as session:
            return await secrets.facts(session, self._rand, self._clock.wall())

    async def take_lead(self, control: str, above: int) -> Epoch:
        """Become leader with an epoch above the store's own and above `above`."""
        async with self._database.writing() as session:
            return await leadership.take_lead(session, self._rand, control, above)

    async def intents(self) -> tuple[Intent, ...]:
        """Every intent, ordered by shard id."""
        async with self._database.reading() as session:
            return await intents.all_intents(session)

    async def write_intents(self, epoch: Epoch, change: IntentChange) -> None:
        """Apply a change in one transaction. Raises Fenced when `epoch` is not the store's own."""
        async with self._database.writing() as session:
            await leadership.check_lead(session, epoch)
            await intents.apply_change(session, change)

    async def latest_catalog(self) -> CatalogRow | None:
        """The newest catalog revision."""
        async with self._database.reading() as session:
            return await catalogs.latest(session)

    async def save_catalog(self, text: str, origin: str, token: str) -> CatalogRow:
        """Store a catalog as the newest revision; `token` is the random part of its name."""
        async with self._database.writing() as session:
            return await catalogs.save(session, text, origin, token, self._clock.wall())

    async def catalog_revisions(self) -> frozenset[str]:
        """Every revision that this store knows."""
        async with self._database.reading() as session:
            return await catalogs.revisions(session)

    async def api_keys(self) -> tuple[ApiKey, ...]:
        """Keys that are neither revoked nor expired, ordered by id."""
        async with self._database.reading() as session:
            return await keys.valid(session, self._clock.wall())

    async def add_usage(self, rows: Sequence[UsageRow]) -> int:
        """Store rows once per id; the number of new ones."""
        async with self._database.writing() as session:
            return await usage.add(session, rows, self._clock.wall())

    async def create_key(
        self,
        owner: str,
        tenant: str = "",
        models: tuple[str, ...] | None = None,
        expires_at: float | None = None,
    ) -> tuple[ApiKey, str]:
        """Make a key; the text beside it is the key itself, which is nowhere stored.

        `models` is what it may use, None for all; `expires_at` is seconds since 1970.
        """
        text = api_key(self._rand.token())
        limits = None if models is None else list(models)
        return await self._add_key(text, owner, tenant, limits, expires_at), text

    async def ensure_key(self, key: str, owner: str) -> ApiKey:
        """Take a key that was made elsewhere; nothing changes when it is known, not even a revocation."""
        return await self._add_key(key, owner, "", None, None)

    async def revoke_key(self, key_id: str) -> bool:
        """End a key now; False when there is none of this id."""
        async with self._database.writing() as session:
            return await keys.revoke(session, key_id, self._clock.wall())

    async def list_keys(self) -> tuple[KeyFacts, ...]:
        """Every key, expired and revoked ones too, oldest first."""
        async with self._database.reading() as session:
            return await keys.every(session, self._clock.wall())

    async def usage(self, since: str = "") -> tuple[UsageTotal, ...]:
        """Sums by day, key and model, from the day `since` (`YYYY-MM-DD`, UTC) on."""
        async with self._database.reading() as session:
            return await usage.totals(session, since)

    async def _add_key(
        self, key: str, owner: str, tenant: str, models: list[str] | None, expires_at: float | None
    ) -> ApiKey:
        now = self._clock.wall()
        async with self._database.writing() as session:
            facts = await secrets.facts(session, self._rand, now)
            hashed = key_hash(facts.pepper, key)
            known = await keys.with_hash(session, hashed, now)
            if known is not None:
                return known
            row = ApiKeyRow(
                id=f"key-{self._rand.token()[:12]}",
                hash=hashed,
                owner=owner,
                tenant=tenant,
                models=models,
                created_at=now,
                expires_at=expires_at,
            )
            return await keys.add(session, row, now)
