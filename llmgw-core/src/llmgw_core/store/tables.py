"""The tables. Private to the store: what crosses its border are the values of `spec` and `ports`.

A field with a secret in it keeps out of repr. Instants are seconds since 1970 of this machine.
"""

from __future__ import annotations

from sqlalchemy import JSON, Column
from sqlmodel import Field, SQLModel

METADATA = SQLModel.metadata
"""What the migrations must add up to."""


class MetaRow(SQLModel, table=True):
    """The one row about the store itself; the epoch is that of the newest leader."""

    __tablename__ = "meta"

    id: int = Field(default=1, primary_key=True)
    cluster: str
    epoch_number: int = 0
    epoch_control: str = ""


class SecretRow(SQLModel, table=True):
    """One version of a secret: `engine` (engine keys derive from it) or `pepper` (hashes of API keys)."""

    __tablename__ = "secrets"

    kind: str = Field(primary_key=True)
    version: int = Field(primary_key=True)
    value: bytes = Field(repr=False)
    created_at: float


class IntentRow(SQLModel, table=True):
    """What was decided about one shard."""

    __tablename__ = "intents"

    shard: str = Field(primary_key=True)
    body: str
    """The Shard, as JSON."""
    goal: str
    epoch_number: int
    epoch_control: str
    number: int | None = None
    reason: str = ""
    grace: float


class CatalogRow(SQLModel, table=True):
    """One state of the catalog. `revision` is `<number>-<random>`: a restored store cannot reuse one."""

    __tablename__ = "catalogs"

    number: int = Field(primary_key=True)
    revision: str = Field(unique=True)
    text: str
    origin: str
    created_at: float


class ApiKeyRow(SQLModel, table=True):
    """A client's key, as its keyed hash. `models` is what it may use, NULL for all."""

    __tablename__ = "api_keys"

    id: str = Field(primary_key=True)
    hash: str = Field(unique=True, repr=False)
    owner: str
    tenant: str = ""
    models: list[str] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True)))
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None


class UsageRow(SQLModel, table=True):
    """One request. The day (UTC) is stored, because databases disagree about how to compute it."""

    __tablename__ = "usage"

    id: str = Field(primary_key=True)
    ended_at: float
    day: str = Field(index=True)
    key: str
    tenant: str
    model_asked: str
    model: str
    replica: str | None = None
    path: str
    streamed: bool
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    ttft: float | None = None
    duration: float
    status: int
    outcome: str
