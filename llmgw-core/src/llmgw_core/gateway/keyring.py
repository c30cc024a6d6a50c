"""Clients' keys and engines' keys, as far as a gateway may know them. Never logged, never in a repr."""

from __future__ import annotations

from dataclasses import dataclass

from llmgw_core.credentials import key_hash
from llmgw_core.spec import ApiKey, Keys, ModelEntry, Secrets, engine_key


@dataclass(frozen=True)
class KnownKey:
    """A client's key that is in force until `expires_at` (monotonic seconds; None = for ever)."""

    id: str
    tenant: str
    models: frozenset[str] | None
    expires_at: float | None

    def may_use(self, model: ModelEntry) -> bool:
        """Whether the key's list of models has this one, by its name or by an alias."""
        return self.models is None or not self.models.isdisjoint({model.name, *model.aliases})


class Keyring:
    """Finds the key behind what a client sent, and the key that an engine asks for."""

    def __init__(self) -> None:
        self._pepper: bytes | None = None
        self._engine_secrets: dict[int, bytes] = {}
        self._by_hash: dict[str, KnownKey] | None = None

    @property
    def complete(self) -> bool:
        """Whether keys have ever arrived; before that, no key can be told from a wrong one."""
        return self._pepper is not None and self._by_hash is not None

    def take_secrets(self, message: Secrets) -> None:
        """Replace the secrets."""
        self._pepper = bytes.fromhex(message.pepper.get_secret_value())
        self._engine_secrets = {
            version: bytes.fromhex(secret.get_secret_value())
            for version, secret in message.engine_keys.items()
        }

    def take_keys(self, message: Keys, now: float) -> None:
        """Replace all keys, or apply a change; `now` is the monotonic clock."""
        kept = {} if message.full or self._by_hash is None else self._by_hash
        gone = {*message.revoked, *(key.id for key in message.changed)}
        self._by_hash = {digest: key for digest, key in kept.items() if key.id not in gone}
        self._by_hash |= {
            key.hash: _known(key, now) for key in message.changed if key.id not in message.revoked
        }

    def find(self, key: str, now: float) -> KnownKey | None:
        """The key in force that a client sent; None also for one that is revoked or expired."""
        if self._pepper is None or self._by_hash is None:
            return None
        known = self._by_hash.get(key_hash(self._pepper, key))
        if known is None or (known.expires_at is not None and now >= known.expires_at):
            return None
        return known

    def has_engine_key(self, version: int) -> bool:
        """Whether a replica with keys of this version can be spoken to; version 0 asks for none."""
        return version == 0 or version in self._engine_secrets

    def engine_key(self, version: int, replica: str) -> str | None:
        """What to send to a replica as its bearer token; None when it was started without a key."""
        return None if version == 0 else engine_key(self._engine_secrets[version], version, replica)


def _known(key: ApiKey, now: float) -> KnownKey:
    return KnownKey(
        id=key.id,
        tenant=key.tenant,
        models=None if key.models is None else frozenset(key.models),
        expires_at=None if key.expires_in is None else now + key.expires_in,
    )
