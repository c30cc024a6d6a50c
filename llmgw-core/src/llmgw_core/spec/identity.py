"""Identities that every message carries: epochs, stamps, shard ids, credentials derived from them."""

from __future__ import annotations

import hashlib
import hmac
import re

from llmgw_core.spec.value import Value

__all__ = ["NO_EPOCH", "Epoch", "Stamp", "engine_key", "is_replica_id", "replica_of", "shard_id"]

_REPLICA = re.compile(r"r-[a-z2-7]{10}")


class Epoch(Value):
    """A leadership: a growing number and the control process that took it.

    One number of two processes is two epochs. Only `number` orders epochs.
    """

    number: int
    control: str


NO_EPOCH = Epoch(number=0, control="")
"""What an agent that has never heard a leader reports."""


class Stamp(Value):
    """The assignment that named something: numbers grow within one epoch and one node."""

    epoch: Epoch
    number: int

    def at_or_above(self, other: Stamp) -> bool:
        """Whether an agent that applied `self` has also applied `other`."""
        return (self.epoch.number, self.number) >= (other.epoch.number, other.number)


def shard_id(replica: str, rank: int) -> str:
    """The id of one rank of a replica, `<replica>/<rank>`."""
    return f"{replica}/{rank}"


def replica_of(shard: str) -> str:
    """The replica that a shard id belongs to."""
    return shard.rpartition("/")[0]


def is_replica_id(text: str) -> bool:
    """Whether `text` has the form of a replica id: `r-` and 10 base32 characters."""
    return _REPLICA.fullmatch(text) is not None


def engine_key(secret: bytes, version: int, replica: str) -> str:
    """The key that one replica's engine asks for: HMAC-SHA256(secret, version ‖ replica), 64 hex digits.

    Derived, not stored: any router computes it for replicas that it never started.
    """
    message = f"{version}\0{replica}".encode()
    return hmac.new(secret, message, hashlib.sha256).hexdigest()
