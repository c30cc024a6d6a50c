"""A store on a new file, with a clock that the test moves and randomness that repeats."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from llmgw_core.spec import Epoch, Intent, Peer, Profile, Shard, shard_id
from llmgw_core.store.database import SqlStore, open_store

OpenStore = Callable[[], AbstractAsyncContextManager[SqlStore]]


class HandClock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now


class SeededRand:
    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._ids = itertools.count()

    def token(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    def replica_id(self) -> str:
        return "r-" + "".join(self._random.choices("abcdefghijklmnopqrstuvwxyz234567", k=10))

    def uniform(self) -> float:
        return self._random.random()


def make_intent(replica: str, *, number: int = 1, goal: str = "run", rank: int = 0) -> Intent:
    epoch = Epoch(number=1, control="a")
    shard = Shard(
        shard=shard_id(replica, rank),
        replica=replica,
        rank=rank,
        world=1,
        epoch=epoch,
        catalog_revision="1-x",
        revision="0123456789ab",
        model="m",
        served_name="m",
        source="/models/m.gguf",
        engine="llamacpp",
        profile=Profile(name="cpu", engine="llamacpp", engine_args={"ctx-size": 4096, "flash-attn": None}),
        peers=(Peer(node="n1", address="127.0.0.1"),) * (rank + 1),
        address="127.0.0.1",
        leader_address="127.0.0.1",
        http_port=30000,
        extra_ports={"kv": (30001, 30002)},
    )
    return Intent.model_validate(
        {"shard": shard, "goal": goal, "epoch": epoch, "number": number, "reason": "why", "grace": 7.5}
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "llmgw.sqlite3"


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def rand() -> SeededRand:
    return SeededRand()


@pytest.fixture
async def store(path: Path, clock: HandClock, rand: SeededRand) -> AsyncIterator[SqlStore]:
    async with open_store(path, clock, rand) as opened:
        yield opened


@pytest.fixture
def intent() -> Callable[..., Intent]:
    """`intent("r-aaaaaaaaaa", number=3, goal="stop")`."""
    return make_intent


@pytest.fixture
def open_again(
    path: Path, clock: HandClock, rand: SeededRand
) -> Callable[[], AbstractAsyncContextManager[SqlStore]]:
    """`async with open_again() as store:` is another start on the same file."""
    return lambda: open_store(path, clock, rand)
