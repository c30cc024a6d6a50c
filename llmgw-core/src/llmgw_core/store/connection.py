"""The database as the rest of the store sees it: reading sessions, and one writing session at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from sqlalchemy import event
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlmodel.ext.asyncio.session import AsyncSession

from llmgw_core.store.failures import failures_named
from llmgw_core.store.location import engine_url

_BEGIN = "llmgw_begin"
_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    # FULL: what was acknowledged must survive a power cut; NORMAL loses the last commits in WAL mode.
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA busy_timeout=2000",
)


class Database:
    """Sessions on an existing SQLite file. Whatever goes wrong in one is raised as a StoreError."""

    def __init__(self, engine: AsyncEngine, path: Path) -> None:
        self._engine = engine
        self._path = path
        # SQLite lets one process write at a time. Waiting here costs nothing and keeps the order; waiting
        # there costs a thread, and fails after the busy timeout.
        self._one_writer = anyio.Lock()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncSession]:
        """A consistent view; nothing that is changed in it is kept."""
        async with self._session() as session:
            yield session

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncSession]:
        """A transaction: committed, durably, when the block ends; undone when it raises."""
        async with self._one_writer, self._session() as session:
            # IMMEDIATE takes the write lock before the first read: what a transaction decides by (the
            # epoch, the newest number) cannot change under it.
            await session.connection(execution_options={_BEGIN: "BEGIN IMMEDIATE"})
            yield session
            await session.commit()

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[AsyncSession]:
        # Shielded: cancelled inside, nobody would know whether the commit happened, and the driver's
        # thread would answer to a loop that may be gone. It takes milliseconds, or the busy timeout.
        with failures_named(self._path), anyio.CancelScope(shield=True):
            async with AsyncSession(self._engine, expire_on_commit=False) as session:
                yield session


@asynccontextmanager
async def open_database(path: Path) -> AsyncIterator[Database]:
    """Open a database that is there and migrated; close it when the block is left."""
    engine = create_async_engine(
        engine_url(path, "sqlite+aiosqlite"),
        hide_parameters=True,  # errors quote their statement, and parameters are hashes and secrets
        pool_size=2,
        max_overflow=2,
        pool_timeout=10.0,
    )
    event.listen(engine.sync_engine, "connect", _on_connect)
    event.listen(engine.sync_engine, "begin", _on_begin)
    try:
        yield Database(engine, path)
    finally:
        with anyio.CancelScope(shield=True):
            await engine.dispose()


def _on_connect(connection: Any, _record: object) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))
