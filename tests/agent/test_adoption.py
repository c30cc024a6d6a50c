"""An agent that starts again finds its engines, whatever happened to its files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from llmgw_agent import procfs
from llmgw_agent.disk import FileDisk
from llmgw_agent.process import LinuxProc
from llmgw_agent.state import StateKeeper
from llmgw_core.node.adoption import adopt
from llmgw_core.spec import Epoch, Shard, StateDirError

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

MakeShard = Callable[..., Shard]


async def run_until_ready(node: Any, shard: Shard) -> Any:
    """Start a shard; the agent is gone when this returns, as after kill -9, and the engine is not."""
    async with node.agent():
        await node.control.run(shard)
        return await node.control.reaches(shard, "Ready")


async def test_a_new_agent_adopts_the_engine_without_a_change_of_state(
    node: Any, make_shard: MakeShard
) -> None:
    shard = make_shard()
    before = await run_until_ready(node, shard)
    async with node.agent():
        await node.control.until(lambda: len(node.control.registers) == 2)
        (record,) = node.control.registers[1].shards
        assert (record.status.state, record.status.adopted) == ("Ready", True)
        assert record.status.processes == before.processes
        assert record.shard == shard
        assert node.control.registers[1].applied == node.control.received[-1].applied
        await node.control.stop(shard)
        ended = await node.control.reaches(shard, "Stopped", "Failed")
    assert ended.state == "Stopped"
    assert node.left() == []


async def test_two_agents_of_one_machine_do_not_touch_each_others_engines(
    node: Any, make_shard: MakeShard, tmp_path: Path
) -> None:
    shard = make_shard()
    before = await run_until_ready(node, shard)
    other = replace(node, config=node.config.model_copy(update={"state_dir": tmp_path / "other"}))
    async with other.agent():
        await node.control.until(lambda: len(node.control.registers) == 2)
        assert node.control.registers[1].shards == ()
    assert node.left() == [before.pid]


async def test_an_adopted_engine_that_dies_is_seen(node: Any, make_shard: MakeShard) -> None:
    shard = make_shard()
    before = await run_until_ready(node, shard)
    async with node.agent():
        await node.control.until(lambda: len(node.control.registers) == 2)
        await node.kill(before.pid)
        ended = await node.control.reaches(shard, "Failed")
    assert ended.failure is not None
    assert ended.failure.failure in {"killed", "crash"}


async def test_an_engine_that_died_while_no_agent_ran_has_vanished(node: Any, make_shard: MakeShard) -> None:
    shard = make_shard()
    before = await run_until_ready(node, shard)
    await node.kill(before.pid)
    async with node.agent():
        await node.control.until(lambda: len(node.control.registers) == 2)
    (record,) = node.control.registers[1].shards
    assert record.status.state == "Failed"
    assert record.status.failure.failure == "vanished"


async def test_a_lost_state_directory_is_recovered_from_the_processes_alone(
    node: Any, make_shard: MakeShard
) -> None:
    shard = make_shard()
    before = await run_until_ready(node, shard)
    node.file(shard).unlink()
    (node.config.state_dir / "state.json").unlink()
    async with node.agent():
        await node.control.until(lambda: len(node.control.registers) == 2)
        register = node.control.registers[1]
        assert (register.applied, register.cluster) == (None, None)
        assert register.heard == Epoch(number=1, control="A")
        (record,) = register.shards
        assert (record.shard, record.status.pid) == (shard, before.pid)
        # Its key was lost too, and comes back with the next assignment.
        await node.control.run(shard)
        await node.control.reaches(shard, "Ready")
    assert node.left() == [before.pid]


async def test_a_shard_whose_record_was_damaged_is_never_started_again(
    node: Any, make_shard: MakeShard
) -> None:
    shard = make_shard()
    before = await run_until_ready(node, shard)
    await node.kill(before.pid)
    node.file(shard).write_text("{")
    async with node.agent():
        await node.control.run(shard)
        await node.control.until(lambda: shard.shard in node.control.received[-1].refused)
        assert node.control.status(shard) is None
    assert node.left() == []


async def test_any_truncation_of_any_file_loses_no_engine(node: Any, make_shard: MakeShard) -> None:
    shard = make_shard()
    before = await run_until_ready(node, shard)
    seen = await LinuxProc(str(node.config.state_dir)).scan()
    paths = (node.file(shard), node.config.state_dir / "state.json")
    for path in paths:
        whole = path.read_bytes()
        for length in (*range(0, len(whole), 97), len(whole) - 2):
            path.write_bytes(whole[:length])
            saved = await StateKeeper(FileDisk(), str(node.config.state_dir)).load()
            found = adopt(saved, seen, procfs.boot_id(), 1e9)
            assert found.watch == (shard.shard,), f"{path.name} cut to {length} bytes"
            assert found.kill == ()
            engine = found.state.records[shard.shard].engine
            assert engine is not None
            assert engine.id.pid == before.pid
            for aside in path.parent.glob("*.damaged-*"):
                aside.unlink()
            path.write_bytes(whole)


async def test_what_a_newer_agent_has_written_is_refused_and_left_alone(
    node: Any, make_shard: MakeShard
) -> None:
    shard = make_shard()
    before = await run_until_ready(node, shard)
    content = json.loads(node.file(shard).read_bytes())
    node.file(shard).write_text(json.dumps({**content, "format": 99}))
    with pytest.raises(StateDirError, match="newer llmgw-agent"):
        await StateKeeper(FileDisk(), str(node.config.state_dir)).load()
    assert node.left() == [before.pid]


async def test_a_marked_process_that_nothing_describes_is_killed(
    node: Any, make_shard: MakeShard, python: str
) -> None:
    proc = LinuxProc(str(node.config.state_dir))
    node.config.state_dir.mkdir()
    stranger = await proc.spawn(
        [python, "-S", "-c", "import time; time.sleep(600)"],
        {"LLMGW_SHARD": "r-zzzzzzzzzz/0:t"},
        token="t",
        work_dir=str(node.config.state_dir),
        output="/dev/null",
    )
    async with node.agent():
        await node.control.until(lambda: not proc.alive(stranger))
    assert (await proc.wait(stranger)).signal == "KILL"


async def test_an_agent_that_died_between_intent_and_fork_says_that_it_was_its_fault(
    node: Any, make_shard: MakeShard
) -> None:
    shard = make_shard()
    before = await run_until_ready(node, shard)
    await node.kill(before.pid)
    content = json.loads(node.file(shard).read_bytes())
    node.file(shard).write_text(json.dumps({**content, "state": "Starting", "processes": []}))
    async with node.agent():
        await node.control.until(lambda: len(node.control.registers) == 2)
    (record,) = node.control.registers[1].shards
    assert record.status.failure.failure == "agent"
