"""Where the database is: a path, or a URL like `sqlite:////var/lib/llmgw/llmgw.sqlite3`."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from llmgw_core.spec import ConfigError

FILE_NAME = "llmgw.sqlite3"
_FIX = "write a path, or sqlite:////path/to/llmgw.sqlite3 (four slashes for an absolute path)"


def database_path(where: str | Path) -> Path:
    """The file that a path or URL names. Raises ConfigError for what is not a SQLite file."""
    if isinstance(where, Path) or "://" not in where:
        return Path(where)
    try:
        url = make_url(where)
    except ArgumentError:
        raise ConfigError("the database URL cannot be read", fix=_FIX) from None
    if url.get_backend_name() != "sqlite":
        raise ConfigError(f"databases of kind {url.get_backend_name()} are not supported", fix=_FIX)
    if url.database in {None, "", ":memory:"}:
        raise ConfigError("the database URL names no file", fix=_FIX)
    return Path(str(url.database))


def database_in(state_dir: Path) -> Path:
    """The database of a server's state directory, or of the one of `llmgw up` that the server's lies in."""
    server = state_dir / "server"
    return (server if server.is_dir() else state_dir) / FILE_NAME


def engine_url(path: Path, driver: str) -> URL:
    """URL of a file that is there: SQLite's mode `rw` never makes an empty one.

    Mode `ro` would leave a write-ahead log behind that it may not tidy up.
    """
    return URL.create(driver, database=path.absolute().as_uri(), query={"mode": "rw", "uri": "true"})
