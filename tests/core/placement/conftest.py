"""Nodes, models and shards to place with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.catalog.model import Model
from llmgw_core.inventory.inventory import Inventory
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.spec import (
    EngineFound,
    Epoch,
    Gpu,
    GpuRef,
    NodeReport,
    Peer,
    PortRange,
    Profile,
    Reason,
    Shard,
)

Build = Callable[..., Any]


@pytest.fixture
def node() -> Build:
    """A Ready node with 8 CPUs and the engine `e` 1.2; keywords go to the report or to the view."""

    def build(
        name: str, gpus: int | tuple[Gpu, ...] = 0, view: dict[str, Any] | None = None, **report: Any
    ) -> NodeView:
        cards = gpus if isinstance(gpus, tuple) else tuple(_gpu(index) for index in range(gpus))
        facts: dict[str, Any] = {
            "address": f"address-of-{name}",
            "cpus": 8,
            "memory_mib": 16000,
            "engines": (EngineFound(name="e", version="1.2", binary=("/bin/e",)),),
            "port_range": PortRange(first=20000, last=20009),
            **report,
        }
        state = {"speaks": True, "connected": True, **(view or {})}
        return NodeView(name=name, report=NodeReport(node=name, gpus=cards, **facts), **state)

    return build


@pytest.fixture
def model() -> Build:
    """A model with one profile of engine `e`, made of the keywords; or with the profiles given."""

    def build(*profiles: Profile, source: str = "/m", **profile: Any) -> Model:
        one = Profile(name="p", engine="e", **profile)
        return Model(name="m", source=source, profiles=profiles or (one,))

    return build


@pytest.fixture
def gpu() -> Build:
    """A GPU of class h100-80g; with reasons it is not usable."""
    return _gpu


@pytest.fixture
def shard() -> Build:
    """A shard of model `other` on a node, holding GPUs by index."""

    def build(replica: str, on: str, *gpus: int, **fields: Any) -> Shard:
        return Shard(
            shard=f"{replica}/0",
            replica=replica,
            rank=0,
            world=1,
            epoch=Epoch(number=1, control="c"),
            catalog_revision="1",
            revision="0" * 12,
            model="other",
            served_name="other",
            source="/o",
            engine="e",
            profile=Profile(name="p", engine="e"),
            peers=(Peer(node=on, address="a"),),
            address="a",
            leader_address="a",
            http_port=fields.pop("http_port", 20000),
            gpus=tuple(GpuRef(index=index, uuid=f"GPU-{index}") for index in gpus),
            **fields,
        )

    return build


@pytest.fixture
def fleet() -> Callable[..., Inventory]:
    """The inventory of nodes, and of what is held on them."""

    def build(*nodes: NodeView, held: tuple[Shard, ...] = ()) -> Inventory:
        return Inventory({view.name: view for view in nodes}, held)

    return build


def _gpu(index: int, *reasons: str, gpu_class: str | None = "h100-80g") -> Gpu:
    return Gpu(
        index=index,
        uuid=f"GPU-{index}",
        gpu_class=gpu_class,
        usable=not reasons,
        reasons=tuple(Reason(code="ecc", text=reason) for reason in reasons),
    )
