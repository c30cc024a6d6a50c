"""The whole path on one node: register, assign, a real process, Ready, stop."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.spec import Shard

pytestmark = pytest.mark.anyio

MakeShard = Callable[..., Shard]


async def test_an_assigned_shard_becomes_ready_and_ends_when_it_is_named_in_stop(
    node: Any, make_shard: MakeShard
) -> None:
    shard = make_shard()
    async with node.agent():
        await node.control.run(shard)
        ready = await node.control.reaches(shard, "Ready")
        assert ready.pid is not None
        assert os.getsid(ready.pid) == ready.pid
        await node.control.stop(shard)
        ended = await node.control.reaches(shard, "Stopped", "Failed")
    assert (ended.state, ended.failure) == ("Stopped", None)
    assert node.left() == []
