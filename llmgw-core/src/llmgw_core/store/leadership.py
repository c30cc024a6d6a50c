"""Who leads: the epoch, and the fence that keeps every other leader from writing."""

from __future__ import annotations

from sqlmodel.ext.asyncio.session import AsyncSession

from llmgw_core.ports import Rand
from llmgw_core.spec import Epoch, Fenced
from llmgw_core.store.secrets import meta_row
from llmgw_core.store.tables import MetaRow


async def take_lead(session: AsyncSession, rand: Rand, control: str, above: int) -> Epoch:
    """Make `control` the leader, with a number above the store's own and above `above`."""
    row = await meta_row(session, rand)
    row.epoch_number = max(row.epoch_number, above) + 1
    row.epoch_control = control
    session.add(row)
    return Epoch(number=row.epoch_number, control=control)


async def check_lead(session: AsyncSession, epoch: Epoch) -> None:
    """Raise Fenced unless `epoch` is the store's own, number and control process.

    Asked in the transaction that writes: a leader that was paused after an earlier question cannot win.
    """
    row = await session.get(MetaRow, 1)
    if row is None or (row.epoch_number, row.epoch_control) != (epoch.number, epoch.control):
        held = "nobody" if row is None else f"epoch {row.epoch_number} of {row.epoch_control or 'nobody'}"
        raise Fenced(f"epoch {epoch.number} of {epoch.control} does not lead; the store was taken by {held}")
