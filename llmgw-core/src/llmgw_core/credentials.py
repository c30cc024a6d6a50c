"""Keys and tokens: their form, their keyed hash, constant-time comparison. Pure."""

from __future__ import annotations

import hashlib
import hmac

API_KEY_PREFIX = "llmgw-"
MAX_KEY_LIFE = 3653 * 86400.0
"""Seconds after which a new key may expire at the latest: ten years with their leap days."""


def api_key(token: str) -> str:
    """A client's key from 32 random characters; shown once, stored as `key_hash` only."""
    return API_KEY_PREFIX + token


def key_hash(pepper: bytes, key: str) -> str:
    """The keyed hash under which a key is stored and looked up: HMAC-SHA256, hexadecimal.

    Looking up a keyed hash in a dictionary needs no constant-time compare: without the pepper nobody
    can aim at a chosen hash.
    """
    return hmac.new(pepper, key.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def same_token(given: str, expected: str) -> bool:
    """Whether two tokens are equal, in time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())
