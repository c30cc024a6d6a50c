"""A shard and a launch to make commands for, and failures as llama.cpp really printed them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from llmgw_core.spec import Epoch, Launch, Peer, Profile, Shard
from pydantic import SecretStr

RECORDED = Path(__file__).with_name("recorded")
SHARD: Mapping[str, Any] = {
    "shard": "r-abcdefghij/0",
    "replica": "r-abcdefghij",
    "rank": 0,
    "world": 1,
    "epoch": Epoch(number=1, control="c"),
    "catalog_revision": "1-a",
    "revision": "0123456789ab",
    "model": "smol",
    "served_name": "smol",
    "source": "/models/smol.gguf",
    "engine": "llamacpp",
    "peers": (Peer(node="n1", address="10.0.0.1"),),
    "address": "10.0.0.1",
    "leader_address": "10.0.0.1",
    "http_port": 9001,
}
PROFILE: Mapping[str, Any] = {"name": "cpu", "engine": "llamacpp", "cpus": 3, "memory_mib": 1024}

MakeShard = Callable[..., Shard]


@pytest.fixture(scope="session")
def make_shard() -> MakeShard:
    """A shard; keywords are fields of its profile, and those of `shard` its own."""

    def make(shard: Mapping[str, Any] | None = None, **profile: Any) -> Shard:
        return Shard(**{**SHARD, "profile": Profile(**{**PROFILE, **profile}), **(shard or {})})

    return make


@pytest.fixture(scope="session")
def launch() -> Launch:
    """A launch with a key."""
    return Launch(
        binary=("/usr/bin/llama-server",),
        version="11549",
        key=SecretStr("engine-key"),
        work_dir="/state/shard",
        log_dir="/state/logs",
    )


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], str]:
    """The output of a failed start, by the name of its file."""

    def read(name: str) -> str:
        return (RECORDED / f"{name}.log").read_text(errors="replace")

    return read
