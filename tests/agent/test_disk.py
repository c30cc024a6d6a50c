"""Files of the state directory: atomic, private, bounded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from llmgw_agent import disk as module
from llmgw_agent.disk import FileDisk

pytestmark = pytest.mark.anyio

disk = FileDisk()


async def test_what_was_written_is_read_and_private(tmp_path: Path) -> None:
    path = str(tmp_path / "a.json")
    await disk.write(path, b"one")
    await disk.write(path, b"two")
    assert await disk.read(path) == b"two"
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert await disk.names(str(tmp_path)) == ("a.json",)


async def test_a_write_that_fails_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.json")
    await disk.write(path, b"one")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        await disk.write(path, b"two")
    assert await disk.read(path) == b"one"
    assert await disk.names(str(tmp_path)) == ("a.json",)


async def test_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "no")
    assert await disk.read(path) is None
    assert await disk.names(path) == ()
    assert await disk.tail(path, 10) == ""
    await disk.remove(path)


async def test_a_file_or_an_empty_directory_can_be_removed(tmp_path: Path) -> None:
    await disk.make_dir(str(tmp_path / "d" / "e"))
    for made in ("d", "d/e"):
        assert os.stat(tmp_path / made).st_mode & 0o777 == 0o700
    await disk.write(str(tmp_path / "d" / "f"), b"")
    for name in ("d/e", "d/f", "d"):
        await disk.remove(str(tmp_path / name))
    assert await disk.names(str(tmp_path)) == ()


async def test_damaged_files_are_set_aside_under_names_of_their_own(tmp_path: Path) -> None:
    path = str(tmp_path / "a.json")
    for content in (b"1", b"2"):
        await disk.write(path, content)
        await disk.set_aside(path)
    assert await disk.names(str(tmp_path)) == ("a.json.damaged-1", "a.json.damaged-2")
    assert await disk.read(str(tmp_path / "a.json.damaged-1")) == b"1"


async def test_a_tail_is_the_end_of_a_file_with_broken_characters_replaced(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes("ä-end".encode())
    assert await disk.tail(str(path), 5) == "\N{REPLACEMENT CHARACTER}-end"
    assert await disk.tail(str(path), 100) == "ä-end"


async def test_a_file_that_is_too_large_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(module.MAX_FILE + 1)
    with pytest.raises(OSError, match="larger than"):
        await disk.read(str(path))
