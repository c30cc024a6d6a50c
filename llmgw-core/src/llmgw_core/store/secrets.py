"""The store's identity and secrets: cluster id, engine secret, pepper. Made once, on first use."""

from __future__ import annotations

from sqlmodel import select
from sqlmodel.ext.asyncio.session import AsyncSession

from llmgw_core.ports import Rand, StoreFacts
from llmgw_core.store.tables import MetaRow, SecretRow

ENGINE = "engine"
PEPPER = "pepper"


async def facts(session: AsyncSession, rand: Rand, now: float) -> StoreFacts:
    """Cluster id and secrets; what is missing is made, so the session must be a writing one."""
    meta = await meta_row(session, rand)
    secrets = await _of_kind(session, ENGINE, rand, now)
    pepper = await _of_kind(session, PEPPER, rand, now)
    return StoreFacts(cluster=meta.cluster, engine_secrets=secrets, pepper=pepper[max(pepper)])


async def meta_row(session: AsyncSession, rand: Rand) -> MetaRow:
    """The one row of `meta`."""
    row = await session.get(MetaRow, 1)
    if row is None:
        row = MetaRow(cluster=rand.token())
        session.add(row)
    return row


async def _of_kind(session: AsyncSession, kind: str, rand: Rand, now: float) -> dict[int, bytes]:
    rows = (await session.exec(select(SecretRow).where(SecretRow.kind == kind))).all()
    if not rows:
        value = bytes.fromhex(rand.token() + rand.token())
        rows = [SecretRow(kind=kind, version=1, value=value, created_at=now)]
        session.add_all(rows)
    return {row.version: row.value for row in rows}
