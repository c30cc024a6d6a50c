"""Making and migrating the schema, before any other use of the database. Blocks: run it in a thread.

A new database is made beside its place and renamed when it is complete, so that an empty or half file in
its place is always damage, and is refused. An existing one is migrated in place, one transaction for each
migration. Killed at any moment, the next call finishes the work.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event, inspect, text
from sqlalchemy.pool import NullPool

from llmgw_core.spec import StoreError, StoreNewer
from llmgw_core.store.failures import damaged, failures_named
from llmgw_core.store.location import database_path, engine_url

_MAGIC = b"SQLite format 3\x00"
_NEW = ".new"


def upgrade(where: str | Path) -> None:
    """Bring the database to this version's schema; make it when nothing is there.

    Raises StoreNewer for one that a newer llmgw made, StoreError for one that is damaged or cannot be
    made; the file is left as it is then.
    """
    path = database_path(where)
    with failures_named(path), _only_one(path):
        if path.exists():
            _check_file(path)
            _migrate(path)
        else:
            _make(path)


def check(where: str | Path) -> str:
    """Read the whole database and return the version of its schema.

    Raises StoreError when it is not there, damaged, or not at this version's schema.
    """
    path = database_path(where)
    with failures_named(path):
        if not path.exists():
            raise StoreError("there is no database", where=str(path), fix="`llmgw db upgrade` makes one")
        _check_file(path)
        heads, head = _read_through(path)
    if heads != (head,):
        raise StoreError("the schema is not up to date", where=str(path), fix="run `llmgw db upgrade`")
    return head


def _read_through(path: Path) -> tuple[tuple[str, ...], str]:
    with _connection(path, "BEGIN") as connection:
        _check_content(connection, path, pragma="integrity_check")
        return _versions(connection, path)


def _make(path: Path) -> None:
    log = path.with_name(path.name + "-wal")
    if log.exists():
        # SQLite would play the old log into the new file.
        raise damaged(log, "the database is gone, but its write-ahead log is still here")
    unfinished = path.with_name(path.name + _NEW)
    # Created here and not by SQLite, which would leave it to the umask who may read it.
    os.close(os.open(unfinished, os.O_CREAT | os.O_RDWR, 0o600))
    _migrate(unfinished)
    unfinished.rename(path)
    _sync_directory(path.parent)


def _migrate(path: Path) -> None:
    with _connection(path, "BEGIN IMMEDIATE") as connection:
        _check_content(connection, path, pragma="quick_check")
        _versions(connection, path)
        command.upgrade(_config(connection), "head")
    path.chmod(0o600)


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise StoreError("is not a file", where=str(path), fix="name the database file")
    with path.open("rb") as file:
        head = file.read(len(_MAGIC))
    if not head:
        raise damaged(path, "the database is empty: its content was lost")
    if head != _MAGIC:
        raise damaged(path, "is not a SQLite database, or its beginning was overwritten")


def _check_content(connection: Connection, path: Path, *, pragma: str) -> None:
    with connection.begin():
        found = connection.execute(text(f"PRAGMA {pragma}(1)")).scalar_one()
        tables = inspect(connection).get_table_names()
    if found != "ok":
        raise damaged(path, f"the database is damaged: {str(found).splitlines()[-1]}")
    if tables and "alembic_version" not in tables:
        raise damaged(path, "is a SQLite database, but not one of llmgw")


def _versions(connection: Connection, path: Path) -> tuple[tuple[str, ...], str]:
    """The versions that the file has (one, or none in a new file), and the newest that is known here."""
    scripts = ScriptDirectory.from_config(_config(connection))
    known = {script.revision for script in scripts.walk_revisions()}
    head = scripts.get_current_head() or ""
    with connection.begin():
        present = MigrationContext.configure(connection).get_current_heads()
        tables = inspect(connection).get_table_names()
    if tables and not present:
        raise damaged(path, "the database has lost the version of its schema")
    if unknown := sorted(set(present) - known):
        raise StoreNewer(
            f"the schema {unknown[0]} was made by a newer llmgw; this one knows schemas up to {head}",
            where=str(path),
            fix="install that version or a newer one, or restore a backup from before the upgrade",
        )
    return present, head


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", "llmgw_core.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


@contextmanager
def _connection(path: Path, begin: str) -> Iterator[Connection]:
    engine = create_engine(engine_url(path, "sqlite"), poolclass=NullPool, connect_args={"timeout": 10.0})
    event.listen(engine, "connect", _leave_transactions_to_us)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    with engine.connect() as connection:
        yield connection


def _leave_transactions_to_us(connection: Any, _record: object) -> None:
    # Python's sqlite3 commits before each CREATE TABLE unless it is told to keep out of transactions: a
    # migration that is killed would leave tables without a version.
    connection.isolation_level = None


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold the lock of migrations: `llmgw db upgrade` and a starting server may meet."""
    lock = os.open(path.with_name(path.name + ".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
