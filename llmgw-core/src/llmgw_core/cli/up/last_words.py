"""The last thing that a daemon wrote to its log before it ended."""

from __future__ import annotations

import json
import os
from pathlib import Path

READ = 8192


def last_words(log: Path) -> str:
    """One line for a person; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - READ))
            lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    # Advice of an error message stands in an indented line of its own below it.
    told = next((line for line in reversed(lines) if not line.startswith(" ")), "")
    return _spoken(told).removeprefix("error: ")


def _spoken(line: str) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    if not isinstance(entry, dict):
        return line
    return ": ".join(str(entry[name]) for name in ("event", "error") if entry.get(name))
