"""What the rules ask the shell to do; everything else is in the state that they return."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Start:
    """Launch a shard whose record is Pending, as soon as what it needs is free."""

    shard: str


@dataclass(frozen=True)
class Stop:
    """Give up on a shard's launch and end every process of it; its record says Stopping or Stopped."""

    shard: str


@dataclass(frozen=True)
class Forget:
    """Remove what is kept on disk of a record that is gone."""

    shard: str


Effect = Start | Stop | Forget
