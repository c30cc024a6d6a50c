"""Small valid values of the contract, for tests: say only what the test is about.

Every function takes the fields of its value as keyword arguments and fills in the rest.
"""

from __future__ import annotations

from typing import Any

from llmgw_core.catalog.model import Catalog, Model, Scaling, launch_revision
from llmgw_core.spec import (
    EngineFound,
    Epoch,
    NodeReport,
    Peer,
    PortRange,
    Profile,
    Shard,
    ShardStatus,
    shard_id,
)

EPOCH = Epoch(number=1, control="cp")
ENGINE = "llamacpp"


def profile(**fields: Any) -> Profile:
    """A CPU profile of one core and no counted memory."""
    return Profile.model_validate({"name": "cpu", "engine": ENGINE, "cpus": 1} | fields)


def model(name: str = "m", *, replicas: int = 1, profiles: tuple[Profile, ...] = (), **fields: Any) -> Model:
    """A model of `replicas` replicas under one CPU profile."""
    scaling = Scaling(min_replicas=replicas, max_replicas=max(replicas, 1))
    return Model(
        name=name, source="/models/m.gguf", profiles=profiles or (profile(),), scaling=scaling, **fields
    )


def catalog(*models: Model, revision: str = "1-a") -> Catalog:
    """A catalog of these models."""
    return Catalog({entry.name: entry for entry in models}, revision)


def shard(
    of: Model | None = None,
    *,
    replica: str = "r-aaaaaaaaaa",
    rank: int = 0,
    nodes: tuple[str, ...] = ("n1",),
    **fields: Any,
) -> Shard:
    """One rank of a replica of the model `of` over `nodes`."""
    of = of or model()
    peers = tuple(Peer(node=node, address="127.0.0.1") for node in nodes)
    base: dict[str, Any] = {
        "shard": shard_id(replica, rank),
        "replica": replica,
        "rank": rank,
        "world": len(nodes),
        "epoch": EPOCH,
        "catalog_revision": "1-a",
        "revision": launch_revision(of, of.profiles[0]),
        "model": of.name,
        "served_name": of.name,
        "source": of.source,
        "engine": of.profiles[0].engine,
        "profile": of.profiles[0],
        "peers": peers,
        "address": "127.0.0.1",
        "leader_address": "127.0.0.1",
        "http_port": 20000,
    }
    return Shard.model_validate(base | fields)


def status(of: Shard, state: str = "Ready", **fields: Any) -> ShardStatus:
    """How a shard stands on its node."""
    return ShardStatus.model_validate({"shard": of.shard, "state": state} | fields)


def report(node: str = "n1", **fields: Any) -> NodeReport:
    """A node of four cores with a usable engine."""
    base: dict[str, Any] = {
        "node": node,
        "address": "127.0.0.1",
        "cpus": 4,
        "memory_mib": 8192,
        "engines": (EngineFound(name=ENGINE, version="1", binary=("llama-server",)),),
        "plugins": {ENGINE: "0.1.0"},
        "port_range": PortRange(first=20000, last=20099),
    }
    return NodeReport.model_validate(base | fields)
