"""Port Disk on a real file system: every call in a thread, since a disk may take its time."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from anyio import to_thread

T = TypeVar("T")

MAX_FILE = 16 * 1024 * 1024
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


class FileDisk:
    """Files of the state directory."""

    async def read(self, path: str) -> bytes | None:
        """Content of a file of at most 16 MiB; None when it is not there."""
        return await _in_thread(lambda: _read(path))

    async def write(self, path: str, content: bytes) -> None:
        """Write atomically and durably, 0600."""
        await _in_thread(lambda: _write(path, content))

    async def remove(self, path: str) -> None:
        """Remove a file or an empty directory; nothing happens when it is not there."""
        await _in_thread(lambda: _remove(path))

    async def set_aside(self, path: str) -> str:
        """Rename a damaged file out of the way and return its new path."""
        return await _in_thread(lambda: _set_aside(path))

    async def names(self, directory: str) -> tuple[str, ...]:
        """Sorted names in a directory; empty when it is not there."""
        return await _in_thread(lambda: _names(directory))

    async def make_dir(self, path: str) -> None:
        """Make a directory and its parents, 0700."""
        await _in_thread(lambda: _make_dir(path))

    async def tail(self, path: str, limit: int) -> str:
        """The last `limit` bytes of a file as text."""
        return await _in_thread(lambda: _tail(path, limit))


async def _in_thread(call: Callable[[], T]) -> T:
    return await to_thread.run_sync(call)


def _make_dir(path: str) -> None:
    """`os.makedirs` gives its mode to the last directory only."""
    if (parent := os.path.dirname(path)) and not os.path.isdir(parent):
        _make_dir(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        return None
    if len(content) > MAX_FILE:
        raise OSError(f"{path} is larger than {MAX_FILE} bytes")
    return content


def _write(path: str, content: bytes) -> None:
    temporary = f"{path}.new"
    try:
        descriptor = os.open(temporary, _NEW, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(os.path.dirname(path))


def _sync_directory(path: str) -> None:
    # Without it the rename itself may be lost in a power cut.
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        os.rmdir(path)


def _set_aside(path: str) -> str:
    number = 1
    while os.path.lexists(aside := f"{path}.damaged-{number}"):
        number += 1
    os.rename(path, aside)
    return aside


def _names(directory: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir(directory)))
    except FileNotFoundError:
        return ()


def _tail(path: str, limit: int) -> str:
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit))
            return file.read(limit).decode(errors="replace")
    except FileNotFoundError:
        return ""
