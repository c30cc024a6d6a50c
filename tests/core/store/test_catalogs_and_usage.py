"""Catalog revisions grow; usage rows are stored once each."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from llmgw_core.ports import CatalogRow
from llmgw_core.spec import UsageRow
from llmgw_core.store.database import SqlStore
from llmgw_core.store.usage import UsageTotal

pytestmark = pytest.mark.anyio


def row(row_id: str, **fields: object) -> UsageRow:
    known = {
        "id": row_id,
        "key": "k",
        "model_asked": "m",
        "model": "m",
        "path": "/v1/completions",
        "duration": 1.0,
        "status": 200,
        "outcome": "ok",
    }
    return UsageRow.model_validate({**known, **fields})


async def test_a_new_store_has_no_catalog(store: SqlStore) -> None:
    assert await store.latest_catalog() is None
    assert await store.catalog_revisions() == frozenset()


async def test_the_newest_catalog_is_the_last_one_saved(store: SqlStore) -> None:
    assert await store.save_catalog("a: 1", "first.yaml", "aaaa") == CatalogRow(
        "1-aaaa", "a: 1", "first.yaml"
    )
    second = await store.save_catalog("b: 2", "second.yaml", "bbbb")
    assert second == CatalogRow("2-bbbb", "b: 2", "second.yaml")
    assert await store.latest_catalog() == second
    assert await store.catalog_revisions() == {"1-aaaa", "2-bbbb"}


async def test_a_tenth_revision_is_newer_than_the_ninth(store: SqlStore) -> None:
    for number in range(1, 11):
        await store.save_catalog(f"n: {number}", "file", "t")
    latest = await store.latest_catalog()
    assert latest is not None
    assert latest.revision == "10-t"


async def test_catalogs_saved_at_once_get_different_numbers(store: SqlStore) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(store.save_catalog, "text", "file", f"t{number}")
    numbers = {int(revision.split("-")[0]) for revision in await store.catalog_revisions()}
    assert numbers == set(range(1, 31))


async def test_a_write_that_is_cancelled_happens_whole_or_not_at_all(store: SqlStore) -> None:
    for attempt in range(40):
        with anyio.move_on_after(attempt * 0.0005):
            await store.save_catalog("text", "file", f"t{attempt}")
    last = await store.save_catalog("last", "file", "end")
    numbers = {int(revision.split("-")[0]) for revision in await store.catalog_revisions()}
    assert numbers == set(range(1, int(last.revision.split("-")[0]) + 1))


async def test_a_row_counts_once_however_often_it_comes(store: SqlStore) -> None:
    batch = [row("1"), row("2"), row("2")]
    assert await store.add_usage(batch) == 2
    assert await store.add_usage(batch) == 0
    assert await store.add_usage([row("2"), row("3")]) == 1
    assert [total.requests for total in await store.usage()] == [3]


async def test_an_empty_batch_is_fine(store: SqlStore) -> None:
    assert await store.add_usage([]) == 0


async def test_large_batches_count_once_too(store: SqlStore) -> None:
    batch = [row(str(number)) for number in range(1700)]
    assert await store.add_usage(batch) == 1700
    assert await store.add_usage(batch) == 0


async def test_usage_is_summed_by_day_key_and_model(store: SqlStore, clock: Any) -> None:
    # The clock stands at 22:13:20 of 14 November 2023, UTC.
    await store.add_usage(
        [
            row("1", prompt_tokens=10, completion_tokens=5, cached_tokens=4),
            row("2", prompt_tokens=1, completion_tokens=None, outcome="failed", status=502),
            row("3", key="other", prompt_tokens=100),
            row("4", model="large", completion_tokens=7),
            row("5", age=86_400.0, prompt_tokens=1000),
        ]
    )
    today = [
        UsageTotal("2023-11-14", "k", "large", 1, 0, 7, 0),
        UsageTotal("2023-11-14", "k", "m", 2, 11, 5, 4),
        UsageTotal("2023-11-14", "other", "m", 1, 100, 0, 0),
    ]
    assert list(await store.usage()) == [UsageTotal("2023-11-13", "k", "m", 1, 1000, 0, 0), *today]
    assert list(await store.usage(since="2023-11-14")) == today
