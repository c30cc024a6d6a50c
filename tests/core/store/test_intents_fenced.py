"""Intents are written by the leader that the store knows, and by no other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from llmgw_core.ports import IntentChange
from llmgw_core.spec import Epoch, Fenced, Intent
from llmgw_core.store.database import SqlStore

pytestmark = pytest.mark.anyio


async def test_the_first_leader_gets_a_number_above_what_it_heard(store: SqlStore) -> None:
    assert await store.take_lead("a", above=41) == Epoch(number=42, control="a")


async def test_every_leadership_is_above_the_last_one(store: SqlStore) -> None:
    first = await store.take_lead("a", above=0)
    second = await store.take_lead("a", above=0)
    assert second.number == first.number + 1


async def test_the_epoch_survives_a_restart(
    path: Path, clock: Any, rand: Any, open_again: Callable[[], AbstractAsyncContextManager[SqlStore]]
) -> None:
    async with open_again() as store:
        await store.take_lead("a", above=10)
    async with open_again() as store:
        assert (await store.take_lead("b", above=0)).number == 12


async def test_an_intent_comes_back_as_it_was_written(store: SqlStore, intent: Callable[..., Intent]) -> None:
    epoch = await store.take_lead("a", above=0)
    written = (intent("r-aaaaaaaaaa"), intent("r-bbbbbbbbbb", number=None, goal="stop", rank=1))
    await store.write_intents(epoch, IntentChange(put=tuple(reversed(written))))
    assert await store.intents() == written


async def test_a_second_write_of_a_shard_replaces_the_first(
    store: SqlStore, intent: Callable[..., Intent]
) -> None:
    epoch = await store.take_lead("a", above=0)
    await store.write_intents(epoch, IntentChange(put=(intent("r-aaaaaaaaaa"),)))
    stopped = intent("r-aaaaaaaaaa", number=9, goal="stop")
    await store.write_intents(epoch, IntentChange(put=(stopped,)))
    assert await store.intents() == (stopped,)


async def test_rows_are_dropped_and_put_in_one_change(store: SqlStore, intent: Callable[..., Intent]) -> None:
    epoch = await store.take_lead("a", above=0)
    await store.write_intents(epoch, IntentChange(put=(intent("r-aaaaaaaaaa"),)))
    await store.write_intents(epoch, IntentChange(put=(intent("r-bbbbbbbbbb"),), drop=("r-aaaaaaaaaa/0",)))
    assert [one.shard.shard for one in await store.intents()] == ["r-bbbbbbbbbb/0"]


async def test_dropping_what_is_not_there_is_fine(store: SqlStore) -> None:
    epoch = await store.take_lead("a", above=0)
    await store.write_intents(epoch, IntentChange(drop=("r-aaaaaaaaaa/0",)))
    assert await store.intents() == ()


async def test_thousands_of_rows_go_in_one_change(
    store: SqlStore, intent: Callable[..., Intent], rand: Any
) -> None:
    epoch = await store.take_lead("a", above=0)
    many = tuple(intent(rand.replica_id()) for _ in range(2500))
    await store.write_intents(epoch, IntentChange(put=many))
    await store.write_intents(epoch, IntentChange(put=many))
    assert len(await store.intents()) == 2500


@pytest.mark.parametrize(
    "stale",
    (
        Epoch(number=1, control="a"),  # an earlier leadership
        Epoch(number=2, control="a"),  # the number of today's, of another process
        Epoch(number=3, control="b"),  # a number that nobody took
        Epoch(number=0, control=""),
    ),
)
async def test_another_leaders_write_is_refused_and_changes_nothing(
    store: SqlStore, intent: Callable[..., Intent], stale: Epoch
) -> None:
    await store.take_lead("a", above=0)
    leader = await store.take_lead("b", above=0)
    kept = intent("r-aaaaaaaaaa")
    await store.write_intents(leader, IntentChange(put=(kept,)))
    change = IntentChange(put=(intent("r-bbbbbbbbbb"),), drop=(kept.shard.shard,))
    with pytest.raises(Fenced, match="epoch 2 of b"):
        await store.write_intents(stale, change)
    assert await store.intents() == (kept,)


async def test_nobody_writes_before_somebody_leads(store: SqlStore, intent: Callable[..., Intent]) -> None:
    with pytest.raises(Fenced, match="nobody"):
        await store.write_intents(Epoch(number=1, control="a"), IntentChange(put=(intent("r-aaaaaaaaaa"),)))
    assert await store.intents() == ()


async def test_leaders_that_start_at_once_get_different_numbers(store: SqlStore) -> None:
    taken: list[Epoch] = []

    async def lead(control: str) -> None:
        taken.append(await store.take_lead(control, above=0))

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(lead, f"c{number}")
    assert sorted(epoch.number for epoch in taken) == list(range(1, 21))
