"""Shards and launches to make commands for, and failures as vLLM really printed them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from llmgw_core.spec import Command, Epoch, Launch, Peer, Profile, Shard
from llmgw_vllm import plugin
from pydantic import SecretStr

RECORDED = Path(__file__).with_name("recorded")
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
GPU_PROFILE: Mapping[str, Any] = {"name": "gpu", "engine": "vllm", "cpus": 8, "memory_mib": 65536}

MakeShard = Callable[..., Shard]
MakeLaunch = Callable[..., Launch]
MakeCommands = Callable[..., tuple[Command, ...]]


def a_shard(rank: int = 0, shard: Mapping[str, Any] | None = None, **profile: Any) -> Shard:
    """Rank `rank` of a replica; keywords are fields of its profile, which has one GPU if it does not say."""
    given = {**GPU_PROFILE, "gpus_per_node": 1, **profile}
    nodes = given.get("nodes", 1)
    fields: dict[str, Any] = {
        "shard": f"r-abcdefghij/{rank}",
        "replica": "r-abcdefghij",
        "rank": rank,
        "world": nodes,
        "epoch": Epoch(number=1, control="c"),
        "catalog_revision": "1-a",
        "revision": "0123456789ab",
        "model": "llama-3.3-70b",
        "served_name": "llama-3.3-70b",
        "source": "/models/llama",
        "engine": "vllm",
        "profile": Profile(**given),
        "peers": tuple(Peer(node=f"n{i}", address=ADDRESSES[i]) for i in range(nodes)),
        "address": ADDRESSES[rank],
        "leader_address": ADDRESSES[0],
        "http_port": 20000,
        "rendezvous_port": 20100 if nodes > 1 else None,
    }
    return Shard(**{**fields, **(shard or {})})


def a_launch(version: str = "0.33.0", **changes: Any) -> Launch:
    """A launch with a key, of a version."""
    fields: dict[str, Any] = {
        "binary": ("/opt/vllm/bin/vllm",),
        "version": version,
        "interface": "eth0",
        "key": SecretStr("engine-key"),
        "work_dir": "/state/work",
        "log_dir": "/state/logs",
    }
    return Launch(**{**fields, **changes})


@pytest.fixture(scope="session")
def make_shard() -> MakeShard:
    """Makes shards; see `a_shard`."""
    return a_shard


@pytest.fixture(scope="session")
def make_launch() -> MakeLaunch:
    """Makes launches; see `a_launch`."""
    return a_launch


@pytest.fixture(scope="session")
def commands() -> MakeCommands:
    """The commands of a rank under a version; keywords are fields of its profile."""

    def make(rank: int = 0, version: str = "0.33.0", launch: Launch | None = None, **shard: Any) -> Any:
        return plugin.llmgw_engine_commands(a_shard(rank, **shard), launch or a_launch(version))

    return make


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], str]:
    """The output of a failed start, by the name of its file."""

    def read(name: str) -> str:
        return (RECORDED / f"{name}.log").read_text(errors="replace")

    return read
