"""Usage: one row for each request, however often its batch arrives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from llmgw_core.spec import UsageRow
from llmgw_core.store import tables

_CHUNK = 500
"""Ids in one statement: SQLite before 3.32 takes 999 variables."""


@dataclass(frozen=True)
class UsageTotal:
    """What one key used of one model on one day (UTC, `YYYY-MM-DD`). Tokens that are not known count as 0."""

    day: str
    key: str
    model: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


async def add(session: AsyncSession, rows: Sequence[UsageRow], now: float) -> int:
    """Store the rows whose id is new; how many those were."""
    by_id = {row.id: row for row in rows}
    for chunk in _chunks(list(by_id)):
        known = await session.exec(select(tables.UsageRow.id).where(col(tables.UsageRow.id).in_(chunk)))
        for row_id in known:
            del by_id[row_id]
    session.add_all(_row(row, now) for row in by_id.values())
    return len(by_id)


async def totals(session: AsyncSession, since: str) -> tuple[UsageTotal, ...]:
    """Sums by day, key and model from the day `since` on, in that order."""
    usage = tables.UsageRow
    by = (col(usage.day), col(usage.key), col(usage.model))
    statement = (
        sqlalchemy.select(
            *by,
            func.count(),
            _sum(usage.prompt_tokens),
            _sum(usage.completion_tokens),
            _sum(usage.cached_tokens),
        )
        .where(col(usage.day) >= since)
        .group_by(*by)
        .order_by(*by)
    )
    found = await (await session.connection()).execute(statement)
    return tuple(UsageTotal(*row) for row in found)


def _sum(tokens: int | None) -> sqlalchemy.ColumnElement[int]:
    return sqlalchemy.type_coerce(func.coalesce(func.sum(tokens), 0), sqlalchemy.Integer)


def _row(row: UsageRow, now: float) -> tables.UsageRow:
    ended_at = now - row.age
    day = datetime.fromtimestamp(ended_at, UTC).strftime("%Y-%m-%d")
    return tables.UsageRow(**row.model_dump(exclude={"age"}), ended_at=ended_at, day=day)


def _chunks(ids: list[str]) -> Iterator[list[str]]:
    return (ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK))
