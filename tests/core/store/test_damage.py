"""Damaged, foreign, newer and missing databases: one line that names the file, and the file left alone."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from llmgw_core.spec import ConfigError, StoreError, StoreNewer, StoreUnavailable
from llmgw_core.store import connection
from llmgw_core.store.connection import open_database
from llmgw_core.store.database import SqlStore
from llmgw_core.store.migrate import check, upgrade

pytestmark = pytest.mark.anyio


def truncate_to_nothing(path: Path) -> None:
    path.write_bytes(b"")


def truncate_to_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def truncate_inside_the_header(path: Path) -> None:
    os.truncate(path, 50)


def zero_the_header(path: Path) -> None:
    path.write_bytes(bytes(100) + path.read_bytes()[100:])


def zero_a_page(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(4096) + content[8192:])


def write_text_over_it(path: Path) -> None:
    path.write_text("models:\n  m: {}\n")


def lose_the_version(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM alembic_version")
    database.close()


def put_another_programs_database(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE albums (name TEXT)")
    database.close()


DAMAGES = (
    truncate_to_nothing,
    truncate_to_half,
    truncate_inside_the_header,
    zero_the_header,
    zero_a_page,
    write_text_over_it,
    lose_the_version,
    put_another_programs_database,
)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_a_damaged_database_is_refused_in_one_line_and_left_alone(
    damage: Callable[[Path], None],
    path: Path,
    open_again: Callable[[], AbstractAsyncContextManager[SqlStore]],
) -> None:
    upgrade(path)
    damage(path)
    before = path.read_bytes()
    with pytest.raises(StoreError) as refused:
        async with open_again():
            pytest.fail("a damaged store must not open")
    assert not isinstance(refused.value, StoreUnavailable)
    assert refused.value.where == str(path)
    assert "restore it from a backup" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == before
    with pytest.raises(StoreError):
        check(path)


async def test_a_newer_schema_is_refused_and_left_alone(
    path: Path, open_again: Callable[[], AbstractAsyncContextManager[SqlStore]]
) -> None:
    upgrade(path)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    before = path.read_bytes()
    with pytest.raises(StoreNewer, match=r"schema 9999 was made by a newer llmgw.*up to 0001"):
        async with open_again():
            pytest.fail("a newer store must not open")
    assert path.read_bytes() == before


async def test_a_log_without_its_database_is_refused(
    path: Path, open_again: Callable[[], AbstractAsyncContextManager[SqlStore]]
) -> None:
    upgrade(path)
    path.rename(path.with_name("elsewhere"))
    path.with_name(path.name + "-wal").write_bytes(b"old frames")
    with pytest.raises(StoreError, match="the database is gone, but its write-ahead log is still here"):
        async with open_again():
            pytest.fail("an old log must not be played into a new store")
    assert not path.exists()


@pytest.mark.parametrize("place", ("/proc/llmgw.sqlite3", "/nowhere/at/all/llmgw.sqlite3"))
def test_a_directory_that_cannot_be_used_is_named(place: str) -> None:
    with pytest.raises(StoreUnavailable, match="directory") as refused:
        upgrade(place)
    assert refused.value.where == place


def test_a_directory_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a file"):
        upgrade(tmp_path)


def test_a_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="Not a directory"):
        upgrade(tmp_path / "file" / "llmgw.sqlite3")


@pytest.mark.parametrize(
    ("url", "says"),
    (
        ("postgresql://db/llmgw", "databases of kind postgresql are not supported"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("://", "cannot be read"),
    ),
)
def test_a_url_that_names_no_sqlite_file_is_a_configuration_error(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        upgrade(url)


@pytest.mark.parametrize("name", ("a b.sqlite3", "100%.sqlite3", "what?.sqlite3", "#1.sqlite3", "ü.sqlite3"))
async def test_odd_file_names_are_file_names(name: str, tmp_path: Path, clock: Any, rand: Any) -> None:
    from llmgw_core.store.database import open_store

    async with open_store(f"{tmp_path}/{name}", clock, rand) as store:
        await store.facts()
    assert (tmp_path / name).stat().st_size > 0


async def test_the_files_are_for_their_owner_only(
    path: Path, open_again: Callable[[], AbstractAsyncContextManager[SqlStore]]
) -> None:
    old = os.umask(0)
    try:
        async with open_again() as store:
            await store.facts()
            modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    finally:
        os.umask(old)
    assert set(modes.values()) == {0o600}, modes
    assert path.name in modes


async def test_opening_never_makes_an_empty_database(path: Path) -> None:
    threads = threading.active_count()
    async with open_database(path) as database:
        with pytest.raises(StoreUnavailable, match="cannot be opened"):
            async with database.reading() as session:
                await session.connection()
    assert not path.exists()
    with anyio.fail_after(60):
        while threading.active_count() > threads:  # the driver's thread ends by itself, a little later
            await anyio.sleep(0.01)


async def test_a_check_leaves_nothing_behind(
    path: Path, open_again: Callable[[], AbstractAsyncContextManager[SqlStore]]
) -> None:
    async with open_again() as store:
        await store.facts()
        assert check(path) == "0001"  # beside a running server
    before = sorted(path.parent.iterdir())
    assert check(path) == "0001"
    assert sorted(path.parent.iterdir()) == before


async def test_a_full_disk_refuses_writes_by_its_name_and_reading_goes_on(
    path: Path,
    open_again: Callable[[], AbstractAsyncContextManager[SqlStore]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # SQLite's own page limit raises the very error of a full disk.
    upgrade(path)
    pages = path.stat().st_size // 4096
    pragmas = (*connection._PRAGMAS, f"PRAGMA max_page_count={pages + 4}")
    monkeypatch.setattr(connection, "_PRAGMAS", pragmas)
    async with open_again() as store:
        kept = await store.save_catalog("small", "file", "aaaa")
        with pytest.raises(StoreUnavailable, match="the disk is full") as full:
            await store.save_catalog("x" * 100_000, "file", "bbbb")
        assert full.value.code == "storage_full"
        assert await store.latest_catalog() == kept
        assert (await store.take_lead("a", above=0)).number == 1  # needs no page: writes go on by themselves
    check(path)


async def test_a_lock_of_another_process_is_named_and_passes(
    path: Path, open_again: Callable[[], AbstractAsyncContextManager[SqlStore]]
) -> None:
    async with open_again() as store:
        await store.facts()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="holds it locked") as busy:
            await store.take_lead("a", above=0)
        assert busy.value.code == "store_unavailable"
        other.execute("ROLLBACK")
        other.close()
        assert (await store.take_lead("a", above=0)).number == 1


async def test_errors_never_quote_parameters(store: SqlStore, path: Path) -> None:
    key = await store.ensure_key("llmgw-0123", "up")
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE api_keys")
    database.close()
    with pytest.raises(StoreUnavailable) as refused:
        await store.ensure_key("llmgw-0123", "up")
    assert key.hash not in str(refused.value)
    assert "api_keys" in str(refused.value)
