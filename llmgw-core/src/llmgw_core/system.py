"""The real clock and the real randomness (ports Clock and Rand)."""

from __future__ import annotations

import secrets
import time

_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_RANDOM = secrets.SystemRandom()


class SystemClock:
    """Port Clock on Linux."""

    def monotonic(self) -> float:
        """Seconds since boot, sleep included.

        CLOCK_MONOTONIC stands still while a machine sleeps: a leader that woke up would believe in a
        lease that ran out long ago.
        """
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time()


class SystemRand:
    """Port Rand from the kernel's random source; what it gives is fit for secrets."""

    def token(self) -> str:
        """128 random bits as 32 hexadecimal digits."""
        return secrets.token_hex(16)

    def replica_id(self) -> str:
        """A new replica id."""
        return "r-" + "".join(secrets.choice(_BASE32) for _ in range(10))

    def uniform(self) -> float:
        """A number in [0, 1)."""
        return _RANDOM.random()
