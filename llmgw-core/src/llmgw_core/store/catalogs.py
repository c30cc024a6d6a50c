"""Catalog revisions: every text that was ever in force, newest last."""

from __future__ import annotations

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from llmgw_core.ports import CatalogRow
from llmgw_core.store import tables


async def latest(session: AsyncSession) -> CatalogRow | None:
    """The newest catalog."""
    row = await _newest(session)
    return None if row is None else _value(row)


async def save(session: AsyncSession, text: str, origin: str, token: str, now: float) -> CatalogRow:
    """Store `text` as the newest revision."""
    newest = await _newest(session)
    number = 1 if newest is None else newest.number + 1
    row = tables.CatalogRow(
        number=number, revision=f"{number}-{token}", text=text, origin=origin, created_at=now
    )
    session.add(row)
    return _value(row)


async def revisions(session: AsyncSession) -> frozenset[str]:
    """The name of every revision."""
    return frozenset(await session.exec(select(tables.CatalogRow.revision)))


async def _newest(session: AsyncSession) -> tables.CatalogRow | None:
    newest_first = select(tables.CatalogRow).order_by(col(tables.CatalogRow.number).desc()).limit(1)
    return (await session.exec(newest_first)).first()


def _value(row: tables.CatalogRow) -> CatalogRow:
    return CatalogRow(revision=row.revision, text=row.text, origin=row.origin)
