"""Shards, leaders and assignments for tests of the agent's rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from llmgw_core.node.assignment import take_assign, take_lead
from llmgw_core.node.effects import Effect
from llmgw_core.node.resources import Capacity
from llmgw_core.node.state import NodeState, Record
from llmgw_core.spec import Assign, Epoch, GpuRef, HcaRef, Lead, Peer, Profile, Shard, StopOrder
from pydantic import SecretStr

BOOT = "boot-1"
A1, B1, B2 = Epoch(number=1, control="A"), Epoch(number=1, control="B"), Epoch(number=2, control="B")


@pytest.fixture
def shard() -> Callable[..., Shard]:
    """Make a shard; `gpu`, `hca` and `port` are short for what it holds."""

    def make(
        replica: str = "r-a", *, gpu: int | None = None, hca: str | None = None, port: int = 0, **fields: Any
    ) -> Shard:
        values: dict[str, Any] = {
            "shard": f"{replica}/0",
            "replica": replica,
            "rank": 0,
            "world": 1,
            "epoch": A1,
            "catalog_revision": "1-x",
            "revision": "0" * 12,
            "model": "m",
            "served_name": "m",
            "source": "/m",
            "engine": "fake",
            "profile": Profile(name="p", engine="fake"),
            "peers": (Peer(node="n1", address="127.0.0.1"),),
            "address": "127.0.0.1",
            "leader_address": "127.0.0.1",
            "http_port": port or 20000 + sum(map(ord, replica)),
            "gpus": () if gpu is None else (GpuRef(index=gpu, uuid=f"GPU-{gpu}"),),
            "hca_ports": () if hca is None else (HcaRef(device=hca, port=1),),
        }
        return Shard(**{**values, **fields})

    return make


@dataclass
class Agent:
    """An agent's state, and what a leader does to it; `effects` are those of the last assign."""

    state: NodeState = field(default_factory=NodeState)
    capacity: Capacity = field(default_factory=lambda: Capacity(cpus=8, memory_mib=8192))
    now: float = 100.0
    effects: tuple[Effect, ...] = ()
    _tokens: Iterator[int] = field(default_factory=count)

    def lead(self, epoch: Epoch = A1, cluster: str = "c1") -> bool:
        new = take_lead(self.state, Lead(cluster=cluster, epoch=epoch))
        self.state = new or self.state
        return new is not None

    def assign(self, number: int, *run: Shard, epoch: Epoch = A1, **fields: Any) -> bool:
        """Whether it was acted on."""
        fields["stop"] = tuple(
            StopOrder(shard=shard, reason="r", grace=7.0) for shard in fields.get("stop", ())
        )
        message = Assign(epoch=epoch, number=number, run=run, **fields)
        before = self.state
        self.state, self.effects = take_assign(
            self.state, message, self.now, BOOT, lambda: f"t{next(self._tokens)}", capacity=self.capacity
        )
        return self.state is not before

    def record(self, replica: str = "r-a") -> Record:
        return self.state.records[f"{replica}/0"]

    def apply(self, event: Callable[..., Record], *args: Any, replica: str = "r-a") -> Record:
        """One event of a shard's life."""
        self.state = self.state.put(event(self.record(replica), *args))
        return self.record(replica)


@pytest.fixture
def agent() -> Agent:
    """An agent that obeys leader A of epoch 1."""
    agent = Agent()
    assert agent.lead()
    return agent


@pytest.fixture
def new_agent() -> Agent:
    """An agent that has heard nobody."""
    return Agent()


@pytest.fixture
def key() -> SecretStr:
    return SecretStr("engine-key-in-clear")
