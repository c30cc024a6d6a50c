"""API keys: shown once, stored as a keyed hash, ended by revocation and by time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from llmgw_core.credentials import key_hash
from llmgw_core.store.database import SqlStore

pytestmark = pytest.mark.anyio


async def test_a_new_key_is_valid_and_found_by_its_hash(store: SqlStore) -> None:
    key, text = await store.create_key("alice", tenant="lab", models=("small", "large"))
    facts = await store.facts()
    assert text.startswith("llmgw-")
    assert key.hash == key_hash(facts.pepper, text)
    assert (key.owner, key.tenant, key.models, key.expires_in) == ("alice", "lab", ("small", "large"), None)
    assert await store.api_keys() == (key,)


async def test_a_key_for_no_model_is_not_a_key_for_all(store: SqlStore) -> None:
    none, _ = await store.create_key("alice", models=())
    every, _ = await store.create_key("alice", models=None)
    assert {key.id: key.models for key in await store.api_keys()} == {none.id: (), every.id: None}


async def test_the_text_of_a_key_is_nowhere_in_the_files(store: SqlStore, path: Path) -> None:
    _, made = await store.create_key("alice")
    taken = "llmgw-taken-from-a-file-0123456789"
    await store.ensure_key(taken, "up")
    written = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"alice" in written
    for text in (made, taken):
        assert text.encode() not in written
        assert text.removeprefix("llmgw-").encode() not in written


async def test_a_key_made_elsewhere_is_taken_once(store: SqlStore) -> None:
    first = await store.ensure_key("llmgw-0123", "up")
    assert await store.ensure_key("llmgw-0123", "somebody else") == first
    assert await store.api_keys() == (first,)


async def test_a_revoked_key_is_not_valid_and_does_not_come_back(store: SqlStore, clock: Any) -> None:
    key = await store.ensure_key("llmgw-0123", "up")
    assert await store.revoke_key(key.id)
    assert await store.api_keys() == ()
    await store.ensure_key("llmgw-0123", "up")
    assert await store.api_keys() == ()
    first = clock.now
    clock.now += 10
    assert await store.revoke_key(key.id)
    assert [facts.revoked_at for facts in await store.list_keys()] == [first]


async def test_revoking_a_key_that_is_not_there_says_so(store: SqlStore) -> None:
    assert not await store.revoke_key("key-000000000000")


async def test_a_key_ends_at_its_time(store: SqlStore, clock: Any) -> None:
    key, _ = await store.create_key("alice", expires_at=clock.now + 60)
    assert key.expires_in == 60
    clock.now += 59
    assert [valid.expires_in for valid in await store.api_keys()] == [1]
    clock.now += 1
    assert await store.api_keys() == ()


async def test_the_list_has_every_key_oldest_first(store: SqlStore, clock: Any) -> None:
    old, _ = await store.create_key("alice", expires_at=clock.now + 60)
    clock.now += 100
    new, _ = await store.create_key("bob")
    await store.revoke_key(new.id)
    listed = await store.list_keys()
    assert [(facts.key.id, facts.expires_at, facts.revoked_at) for facts in listed] == [
        (old.id, clock.now - 40, None),
        (new.id, None, clock.now),
    ]


async def test_facts_are_made_once_and_survive_a_restart(
    open_again: Callable[[], AbstractAsyncContextManager[SqlStore]],
) -> None:
    async with open_again() as store:
        first = await store.facts()
        assert await store.facts() == first
    async with open_again() as store:
        assert await store.facts() == first
    assert len(first.pepper) == len(first.engine_secrets[1]) == 32
    assert first.pepper != first.engine_secrets[1]


async def test_secrets_stay_out_of_what_is_printed(store: SqlStore) -> None:
    facts = await store.facts()
    shown = repr(facts)
    assert repr(facts.pepper) not in shown
    assert repr(facts.engine_secrets[1]) not in shown
