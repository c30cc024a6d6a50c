"""What happened in a simulated run, in order: the same seed gives the same trace."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import anyio


@dataclass
class Trace:
    """Lines of `seconds who what`; `digest` is equal for equal runs only."""

    lines: list[str] = field(default_factory=list)

    def add(self, who: str, what: str) -> None:
        """Note an event at the present virtual time."""
        self.lines.append(f"{anyio.current_time():.6f} {who} {what}")

    @property
    def digest(self) -> str:
        """SHA-256 of all lines."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()
