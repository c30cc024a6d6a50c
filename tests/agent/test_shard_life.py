"""The whole path on one node: register, assign, a real process, Ready, stop."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from llmgw_agent import procfs
from llmgw_core.spec import GpuRef, Shard, ShardStatus

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

MakeShard = Callable[..., Shard]


def failure_of(status: ShardStatus) -> Any:
    assert status.failure is not None, status
    return status.failure


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
    assert procfs.stat(ready.pid) is None, "a zombie is left"


async def test_a_shard_is_not_ready_before_it_has_answered_an_inference(
    node: Any, make_shard: MakeShard, tmp_path: Path
) -> None:
    loaded = tmp_path / "loaded"
    shard = make_shard(loading=str(loaded), say="weights 3/7")
    async with node.agent():
        await node.control.run(shard)
        await node.control.until(lambda: (s := node.control.status(shard)) and s.progress_text)
        status = node.control.status(shard)
        assert (status.state, status.detail) == ("Loading", "asked startup, readiness")
        assert "weights 3/7" in status.progress_text
        loaded.touch()
        await node.control.reaches(shard, "Ready")


async def test_an_engine_that_stops_answering_is_unhealthy_and_lives_on(
    node: Any, make_shard: MakeShard, tmp_path: Path
) -> None:
    deaf = tmp_path / "deaf"
    shard = make_shard(deaf=str(deaf))
    async with node.agent():
        await node.control.run(shard)
        before = await node.control.reaches(shard, "Ready")
        deaf.touch()
        unhealthy = await node.control.reaches(shard, "Unhealthy")
        assert (unhealthy.pid, unhealthy.detail) == (before.pid, "/health answered 500")
        deaf.unlink()
        after = await node.control.reaches(shard, "Ready")
    assert after.processes == before.processes


async def test_term_then_kill_ends_a_tree_that_ignores_term_with_a_child_in_its_own_session(
    node: Any, make_shard: MakeShard
) -> None:
    shard = make_shard(ignore_term=None, child=None)
    async with node.agent():
        await node.control.run(shard)
        await node.control.reaches(shard, "Ready")
        assert len(node.left()) == 2
        await node.control.stop(shard, grace=0.3)
        ended = await node.control.reaches(shard, "Stopped", "Failed", "Unkillable")
        assert ended.state == "Stopped"
        assert node.left() == []


async def test_a_shard_whose_engine_died_has_failed_only_when_its_children_are_gone(
    node: Any, make_shard: MakeShard
) -> None:
    shard = make_shard(child=None)
    async with node.agent():
        await node.control.run(shard)
        ready = await node.control.reaches(shard, "Ready")
        os.kill(ready.pid, signal.SIGKILL)
        ended = await node.control.reaches(shard, "Failed")
        assert node.left() == []
    assert (failure_of(ended).failure, failure_of(ended).signal) == ("killed", "KILL")


async def test_an_exit_while_loading_is_classified_with_its_last_lines_and_the_hint(
    node: Any, make_shard: MakeShard
) -> None:
    shard = make_shard(fail=7, say="error: cannot open model /x.gguf")
    async with node.agent():
        await node.control.run(shard)
        failure = failure_of(await node.control.reaches(shard, "Failed"))
    assert (failure.failure, failure.exit_code, failure.hint) == ("configuration", 7, "check the path")
    assert "cannot open model /x.gguf" in failure.tail
    assert "cannot open model /x.gguf" in failure.detail


async def test_what_the_plugin_does_not_support_is_a_configuration_failure(
    node: Any, make_shard: MakeShard
) -> None:
    shard = make_shard(unsupported=1)
    async with node.agent():
        await node.control.run(shard)
        failure = failure_of(await node.control.reaches(shard, "Failed"))
    assert failure.failure == "configuration"
    assert failure.detail == "engine_args.unsupported: the fake engine cannot do it"


async def test_a_missing_engine_is_a_configuration_failure_with_the_hint(
    node: Any, make_shard: MakeShard, tmp_path: Path
) -> None:
    node.config = node.config.model_copy(update={"engines": {"fake": str(tmp_path / "nothing")}})
    shard = make_shard()
    async with node.agent():
        await node.control.run(shard)
        failure = failure_of(await node.control.reaches(shard, "Failed"))
    assert failure.failure == "configuration"
    assert "cannot be started. it is part of the tests" in failure.detail


async def test_a_port_that_is_taken_is_said_before_anything_is_started(
    node: Any, make_shard: MakeShard
) -> None:
    shard = make_shard()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", shard.http_port))
        holder.listen()
        async with node.agent():
            await node.control.run(shard)
            failure = failure_of(await node.control.reaches(shard, "Failed"))
    assert failure.failure == "port_in_use"
    assert node.log(shard) == ""


async def test_a_shard_that_waits_for_what_is_stopping_starts_when_it_is_gone(
    node: Any, make_shard: MakeShard
) -> None:
    first, second = make_shard(ignore_term=None), make_shard("r-bbbbbbbbbb")
    assert first.http_port == second.http_port
    async with node.agent():
        await node.control.run(first)
        await node.control.reaches(first, "Ready")
        await node.control.stop(first, grace=1.0)
        await node.control.run(second)
        pending = await node.control.reaches(second, "Pending")
        assert f"port {first.http_port} held by {first.shard}" in pending.detail
        await node.control.reaches(second, "Ready")
        assert node.control.status(first).state == "Stopped"


async def test_a_stop_overtakes_a_launch_that_waits(node: Any, make_shard: MakeShard) -> None:
    first, second = make_shard(ignore_term=None), make_shard("r-bbbbbbbbbb")
    async with node.agent():
        await node.control.run(first)
        await node.control.reaches(first, "Ready")
        await node.control.stop(first, grace=30.0)
        await node.control.run(second)
        await node.control.reaches(second, "Pending")
        await node.control.stop(second)
        await node.control.reaches(second, "Stopped")
        assert node.control.status(first).state == "Stopping"


async def test_the_wait_for_what_is_stopping_has_an_end(node: Any, make_shard: MakeShard) -> None:
    first, second = make_shard(ignore_term=None), make_shard("r-bbbbbbbbbb")
    second = second.model_copy(update={"timeouts": second.timeouts.model_copy(update={"wait": 0.3})})
    async with node.agent():
        await node.control.run(first)
        await node.control.reaches(first, "Ready")
        await node.control.stop(first, grace=60.0)
        await node.control.run(second)
        failure = failure_of(await node.control.reaches(second, "Failed"))
        assert node.control.status(first).state == "Stopping"
    assert failure.failure == "agent"
    assert f"held by {first.shard}" in failure.detail


async def test_the_key_reaches_the_engine_and_nothing_that_others_can_see(
    node: Any, make_shard: MakeShard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    key, shard = "the-key-of-this-engine", make_shard()
    async with node.agent() as agent:
        await node.control.run(shard)
        ready = await node.control.reaches(shard, "Ready")
        environ = procfs.environ(ready.pid)
        assert environ is not None
        assert environ["FAKE_KEY"] == key
        assert key not in environ["LLMGW_SPEC"]
        assert key not in Path(f"/proc/{ready.pid}/cmdline").read_text()
        assert key not in repr(agent.keeper.state)
    assert key not in "".join(message.model_dump_json() for message in node.control.received)
    assert key not in caplog.text
    assert node.file(shard).stat().st_mode & 0o777 == 0o600
    log = node.config.state_dir / "logs" / "r-aaaaaaaaaa-0" / "engine.log"
    assert log.stat().st_mode & 0o777 == 0o600


async def test_an_engine_sees_no_gpu_but_its_own_and_no_secret_of_the_agent(
    node: Any, make_shard: MakeShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMGW_AGENT__TOKEN_FILE", "/secret")
    monkeypatch.setenv("HF_HOME", "/models")
    shard = make_shard()
    async with node.agent():
        await node.control.run(shard)
        ready = await node.control.reaches(shard, "Ready")
        environ = procfs.environ(ready.pid)
    assert environ is not None
    assert environ["CUDA_VISIBLE_DEVICES"] == ""
    assert environ["SPT_NOENV"] == "1"
    assert environ["HF_HOME"] == "/models"
    assert "LLMGW_AGENT__TOKEN_FILE" not in environ


async def test_an_engine_sees_its_gpus_by_number(node: Any, make_shard: MakeShard) -> None:
    gpus = (GpuRef(index=3, uuid="GPU-c"), GpuRef(index=1, uuid="GPU-a"))
    shard = make_shard().model_copy(update={"gpus": gpus})
    async with node.agent():
        await node.control.run(shard)
        ready = await node.control.reaches(shard, "Ready")
        environ = procfs.environ(ready.pid)
    assert environ is not None
    assert (environ["CUDA_DEVICE_ORDER"], environ["CUDA_VISIBLE_DEVICES"]) == ("PCI_BUS_ID", "3,1")


async def test_a_node_that_drains_stops_its_engines_and_says_so(node: Any, make_shard: MakeShard) -> None:
    shard = make_shard()
    async with node.agent() as agent:
        await node.control.run(shard)
        await node.control.reaches(shard, "Ready")
        agent.stop(drain=True)
        ended = await node.control.reaches(shard, "Stopped", "Failed")
        await node.control.until(lambda: node.control.received[-1].type == "bye")
    assert (ended.state, ended.detail) == ("Stopped", "stopped on the node")
    assert node.left() == []


async def test_an_agent_that_stops_leaves_its_engines_running(node: Any, make_shard: MakeShard) -> None:
    shard = make_shard()
    async with node.agent() as agent:
        await node.control.run(shard)
        ready = await node.control.reaches(shard, "Ready")
        agent.stop(drain=False)
        await node.control.until(lambda: node.control.received[-1].type == "bye")
    assert node.left() == [ready.pid]


async def test_a_drain_can_be_broken_off(node: Any, make_shard: MakeShard) -> None:
    shard = make_shard(ignore_term=None)
    async with anyio.create_task_group() as group, node.agent() as agent:
        await node.control.run(shard)
        ready = await node.control.reaches(shard, "Ready")
        agent.stop(drain=True)
        await node.control.reaches(shard, "Stopping")
        agent.stop(drain=False)
        await node.control.until(lambda: node.control.received[-1].type == "bye")
        group.cancel_scope.cancel()
    assert node.left() == [ready.pid]
