"""The usage journal: rows on disk before anything else, removed when the control plane has stored them.

A directory of segments. Rows are appended to the newest; handing out a batch closes it, and the segment's
name is the batch's id. What a killed process left is found by the next one. Each row is written at once
and not synced: it survives a kill of the process, not a power cut.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import OrderedDict
from pathlib import Path

from pydantic import ValidationError

from llmgw_core.ports import Clock, Rand
from llmgw_core.spec import StateDirError, Usage, UsageRow, Value

MAX_ROWS = 500
"""Rows of a segment, and so of a batch."""
MAX_SEGMENTS = 400
"""Segments kept while no control plane takes them; then the oldest go, and the log says how many rows."""
_SUFFIX = ".usage"
_log = logging.getLogger(__name__)


class _Entry(Value):
    """A line of a segment: the row, and when it ended (wall clock: the machine may boot in between)."""

    ended: float
    row: UsageRow


class Journal:
    """Usage rows on their way to the store. One process owns the directory; methods do not wait."""

    def __init__(self, directory: Path, clock: Clock, rand: Rand) -> None:
        """Take over what the last process left. Raises StateDirError when the directory cannot be used."""
        self._directory = directory
        self._clock = clock
        self._rand = rand
        self._file: int | None = None
        self._open = ""
        self._rows = 0
        self._lent: set[str] = set()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            left = sorted(directory.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
        except OSError as error:
            raise StateDirError(
                f"cannot be used: {error.strerror}", where=str(directory), fix="choose another spool_dir"
            ) from None
        self._closed: OrderedDict[str, None] = OrderedDict.fromkeys(path.stem for path in left)

    def append(self, row: UsageRow) -> None:
        """Write a row. A full disk costs rows, never a client's answer: it is logged."""
        entry = _Entry(ended=self._clock.wall(), row=row)
        try:
            self._write(entry.model_dump_json().encode() + b"\n")
        except OSError as error:
            _log.error("usage row lost", extra={"request": row.id, "reason": error.strerror})

    def lend(self) -> Usage | None:
        """The oldest batch that nobody is sending now; None when there is nothing to send."""
        name = self._next_name()
        if name is None:
            return None
        rows = self._read(name)
        if not rows:
            return self.lend()
        self._lent.add(name)
        return Usage(batch=name, rows=rows)

    def give_back(self, batch: str) -> None:
        """A batch could not be sent, or nobody answered: it may be lent again."""
        self._lent.discard(batch)

    def stored(self, batch: str) -> None:
        """A batch is in the store: it goes. A batch that is not ours changes nothing."""
        if batch in self._closed:
            self._remove(batch)

    def close(self) -> None:
        """Close the open segment; its rows stay for the next process."""
        if self._file is not None:
            os.close(self._file)
            self._closed[self._open] = None
            self._file = None

    def _write(self, line: bytes) -> None:
        file = self._begin_segment() if self._file is None else self._file
        written = os.write(file, line)
        self._rows += 1
        if written < len(line) or self._rows >= MAX_ROWS:
            self.close()  # half a row must not run into the next one
        if written < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _begin_segment(self) -> int:
        while len(self._closed) >= MAX_SEGMENTS:
            self._drop_oldest()
        self._open = self._rand.token()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self._path(self._open), flags, 0o600)
        self._rows = 0
        return self._file

    def _drop_oldest(self) -> None:
        name = next(iter(self._closed))
        rows = self._read(name)
        self._remove(name)
        _log.error("usage rows dropped: no control plane takes them", extra={"rows": len(rows)})

    def _next_name(self) -> str | None:
        for name in self._closed:
            if name not in self._lent:
                return name
        if self._file is None:
            return None
        self.close()
        return self._open

    def _read(self, name: str) -> tuple[UsageRow, ...]:
        """The rows of a segment. One without any is forgotten; one that cannot be read stays on disk."""
        now = self._clock.wall()
        try:
            lines = self._path(name).read_bytes().splitlines()
        except OSError as error:
            _log.error("usage segment unreadable", extra={"segment": name, "reason": error.strerror})
            del self._closed[name]
            return ()
        entries = [entry for line in lines if (entry := _parsed(line)) is not None]
        if not entries:
            self._remove(name)
        return tuple(entry.row.model_copy(update={"age": max(0.0, now - entry.ended)}) for entry in entries)

    def _remove(self, name: str) -> None:
        self._closed.pop(name, None)
        self._lent.discard(name)
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            _log.error("usage segment stays", extra={"segment": name, "reason": error.strerror})

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}{_SUFFIX}"


def _parsed(line: bytes) -> _Entry | None:
    try:
        return _Entry.model_validate_json(line)
    except ValidationError:
        return None  # the process was killed while it wrote this line
