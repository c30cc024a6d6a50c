"""A fault of a catalog before it has a line: what is wrong, at which path, and the fix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Path = tuple[str | int, ...]
"""Keys and list indices from the top of the document."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong at `path`; `at_key` points at the key itself instead of at its value."""

    path: Path
    message: str
    fix: str = ""
    at_key: bool = False
    severity: Literal["error", "warning"] = "error"


def show_path(path: Path) -> str:
    """A path as people read it: `models.llama-3.3-70b.profiles[0].nodes`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
