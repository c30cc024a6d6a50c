"""What the database's failures mean for a caller: one sentence, what to do, and whether it may pass."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from llmgw_core.spec import StoreError, StoreUnavailable

_RESTORE = "restore it from a backup, or move it away to begin with an empty store"
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PASSING = {
    sqlite3.SQLITE_BUSY: ("another process holds it locked", "look who has it open"),
    sqlite3.SQLITE_READONLY: ("it is not writable", "make the file and its directory writable"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "check the file, its directory and their owner"),
    sqlite3.SQLITE_IOERR: ("reading or writing its disk fails", "check the disk"),
}


@contextmanager
def failures_named(path: Path) -> Iterator[None]:
    """Turn what SQLAlchemy, SQLite and the disk raise into StoreUnavailable; a damaged file, StoreError."""
    try:
        yield
    except OSError as error:
        raise _of_disk(error, path) from None
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise _of_database(error, path) from None


def damaged(path: Path, what: str) -> StoreError:
    """The error for a file that is not, or no longer, a database of llmgw."""
    return StoreError(what, where=str(path), fix=_RESTORE)


def _of_disk(error: OSError, path: Path) -> StoreUnavailable:
    if error.errno in _FULL:
        return _full(path)
    fix = "check that it and its directory are there, and that this user may write them"
    return StoreUnavailable(f"the database cannot be used: {error.strerror}", where=str(path), fix=fix)


def _of_database(error: Exception, path: Path) -> StoreError:
    cause = error.orig if isinstance(error, DBAPIError) else error
    # The low byte is the kind of failure; SQLite's extended codes only refine it.
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code in _DAMAGED:
        return damaged(path, f"the database is damaged: {cause}")
    if code == sqlite3.SQLITE_FULL:
        return _full(path)
    what, fix = _PASSING.get(code, (f"it does not answer: {cause}", None))
    return StoreUnavailable(f"the database cannot be used: {what}", where=str(path), fix=fix)


def _full(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        "the database cannot be written: the disk is full",
        code="storage_full",
        where=str(path),
        fix="free space on its disk; writes resume by themselves",
    )
