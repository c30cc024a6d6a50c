"""A shard and a launch to make commands for, on one node or two, and failures as SGLang printed them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from llmgw_core.spec import Epoch, Launch, Peer, Profile, Shard
from pydantic import SecretStr

RECORDED = Path(__file__).with_name("recorded")
KEY = "0123456789abcdef" * 4
ADDRESSES = ("10.0.0.1", "10.0.0.2")
SHARD: Mapping[str, Any] = {
    "replica": "r-abcdefghij",
    "epoch": Epoch(number=1, control="c"),
    "catalog_revision": "1-a",
    "revision": "0123456789ab",
    "model": "llama",
    "served_name": "llama",
    "source": "/models/llama",
    "engine": "sglang",
    "leader_address": ADDRESSES[0],
    "http_port": 20000,
    "extra_ports": {"rendezvous": (20001,)},
}
PROFILE: Mapping[str, Any] = {
    "name": "gpu",
    "engine": "sglang",
    "gpu_class": "h100-80g",
    "gpus_per_node": 1,
    "memory_mib": 1024,
}

MakeShard = Callable[..., Shard]


@pytest.fixture(scope="session")
def make_shard() -> MakeShard:
    """One rank's shard; keywords are fields of its profile, and those of `shard` its own."""

    def make(shard: Mapping[str, Any] | None = None, *, rank: int = 0, **profile: Any) -> Shard:
        nodes = profile.get("nodes", 1)
        fields = {
            "shard": f"r-abcdefghij/{rank}",
            "rank": rank,
            "world": nodes,
            "peers": tuple(Peer(node=f"n{i}", address=ADDRESSES[i]) for i in range(nodes)),
            "address": ADDRESSES[rank],
            "rendezvous_port": 20001 if nodes > 1 else None,
        }
        return Shard(**{**SHARD, **fields, "profile": Profile(**{**PROFILE, **profile}), **(shard or {})})

    return make


@pytest.fixture(scope="session")
def launch() -> Launch:
    """A launch of the newest release, with a key."""
    return Launch(
        binary=("/opt/sglang/bin/sglang",),
        version="0.5.23",
        interface="eth0",
        key=SecretStr(KEY),
        work_dir="/state/work",
        log_dir="/state/logs",
    )


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], str]:
    """The last lines of a start that failed, by the name of its file."""

    def read(name: str) -> str:
        return (RECORDED / f"{name}.log").read_text(errors="replace")

    return read
