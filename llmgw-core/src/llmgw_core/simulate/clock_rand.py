"""Clock and randomness of a simulated process: virtual time, and a stream of numbers of its own."""

from __future__ import annotations

import random

import anyio

_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
STARTED_AT = 1_800_000_000.0
"""Wall time at the beginning of every run."""


class SimClock:
    """Port Clock in virtual time."""

    def monotonic(self) -> float:
        """Virtual seconds since the run began."""
        return anyio.current_time()

    def wall(self) -> float:
        """Seconds since 1970, as if every run began at one moment."""
        return STARTED_AT + anyio.current_time()


class SimRand:
    """Port Rand from a seed. Each user has a stream of its own, so that one more draw shifts no other."""

    def __init__(self, seed: int, user: str) -> None:
        # A text seeds the same numbers whatever PYTHONHASHSEED is.
        self._random = random.Random(f"{seed}/{user}")  # noqa: S311  (a simulation, not a secret)

    def token(self) -> str:
        """32 hexadecimal digits."""
        return f"{self._random.getrandbits(128):032x}"

    def replica_id(self) -> str:
        """A replica id."""
        return "r-" + "".join(self._random.choice(_BASE32) for _ in range(10))

    def uniform(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()
