"""Clients' API keys: stored as a keyed hash, so the database holds nothing that opens the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from sqlmodel import col, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from llmgw_core.spec import ApiKey
from llmgw_core.store.tables import ApiKeyRow


@dataclass(frozen=True)
class KeyFacts:
    """A key as its owner's administrator sees it. Instants are seconds since 1970, None = never."""

    key: ApiKey
    created_at: float
    expires_at: float | None
    revoked_at: float | None


async def add(session: AsyncSession, row: ApiKeyRow, now: float) -> ApiKey:
    """Store a new key."""
    session.add(row)
    return _value(row, now)


async def with_hash(session: AsyncSession, hashed: str, now: float) -> ApiKey | None:
    """The key with this hash, revoked and expired ones too."""
    row = (await session.exec(select(ApiKeyRow).where(ApiKeyRow.hash == hashed))).first()
    return None if row is None else _value(row, now)


async def valid(session: AsyncSession, now: float) -> tuple[ApiKey, ...]:
    """Keys that are neither revoked nor expired, ordered by id."""
    rows = await session.exec(
        select(ApiKeyRow)
        .where(col(ApiKeyRow.revoked_at).is_(None))
        .where(or_(col(ApiKeyRow.expires_at).is_(None), col(ApiKeyRow.expires_at) > now))
        .order_by(col(ApiKeyRow.id))
    )
    return tuple(_value(row, now) for row in rows)


async def every(session: AsyncSession, now: float) -> tuple[KeyFacts, ...]:
    """Every key that there ever was, oldest first."""
    rows = await session.exec(select(ApiKeyRow).order_by(col(ApiKeyRow.created_at), col(ApiKeyRow.id)))
    return tuple(KeyFacts(_value(row, now), row.created_at, row.expires_at, row.revoked_at) for row in rows)


async def revoke(session: AsyncSession, key_id: str, now: float) -> bool:
    """End a key; False when there is none of this id. Revoking twice keeps the first instant."""
    row = await session.get(ApiKeyRow, key_id)
    if row is None:
        return False
    if row.revoked_at is None:
        row.revoked_at = now
        session.add(row)
    return True


def _value(row: ApiKeyRow, now: float) -> ApiKey:
    return ApiKey(
        id=row.id,
        hash=row.hash,
        owner=row.owner,
        tenant=row.tenant,
        models=None if row.models is None else tuple(row.models),
        expires_in=None if row.expires_at is None else row.expires_at - now,
    )
