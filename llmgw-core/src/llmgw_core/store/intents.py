"""Intents: what was decided about each shard, written before any message about it leaves."""

from __future__ import annotations

from sqlmodel import col, delete, select
from sqlmodel.ext.asyncio.session import AsyncSession

from llmgw_core.ports import IntentChange
from llmgw_core.spec import Epoch, Intent, Shard
from llmgw_core.store.tables import IntentRow

_CHUNK = 500
"""Ids in one statement: SQLite before 3.32 takes 999 variables."""


async def all_intents(session: AsyncSession) -> tuple[Intent, ...]:
    """Every intent, ordered by shard id."""
    rows = await session.exec(select(IntentRow).order_by(col(IntentRow.shard)))
    return tuple(_intent(row) for row in rows)


async def apply_change(session: AsyncSession, change: IntentChange) -> None:
    """Write rows and drop rows; a row that is put replaces the one of the same shard."""
    gone = [*(intent.shard.shard for intent in change.put), *change.drop]
    for start in range(0, len(gone), _CHUNK):
        await session.exec(delete(IntentRow).where(col(IntentRow.shard).in_(gone[start : start + _CHUNK])))
    session.add_all(_row(intent) for intent in change.put)


def _row(intent: Intent) -> IntentRow:
    return IntentRow(
        shard=intent.shard.shard,
        body=intent.shard.model_dump_json(),
        goal=intent.goal,
        epoch_number=intent.epoch.number,
        epoch_control=intent.epoch.control,
        number=intent.number,
        reason=intent.reason,
        grace=intent.grace,
    )


def _intent(row: IntentRow) -> Intent:
    return Intent.model_validate(
        {
            "shard": Shard.model_validate_json(row.body),
            "goal": row.goal,
            "epoch": Epoch(number=row.epoch_number, control=row.epoch_control),
            "number": row.number,
            "reason": row.reason,
            "grace": row.grace,
        }
    )
