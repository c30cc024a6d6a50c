"""What a launch leaves in its working directory, secret files above all, goes with the shard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llmgw_agent.disk import FileDisk
from llmgw_agent.work_dir import remove_work_dir
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import Command, Launch, Shard, hookimpl
from pydantic import SecretStr

pytestmark = pytest.mark.anyio
MakeShard = Callable[..., Shard]


async def test_a_directory_that_an_engine_made_keeps_no_secret_file_from_going(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "cache").mkdir(parents=True)
    (work / "cache" / "kernel").touch()
    (work / "secret").touch()
    await remove_work_dir(FileDisk(), str(work))
    assert [path.name for path in work.iterdir()] == ["cache"]


async def test_a_directory_that_is_not_there_is_no_problem(tmp_path: Path) -> None:
    await remove_work_dir(FileDisk(), str(tmp_path / "work"))


def _cannot_start(engine: Any, **broken: Any) -> PluginHost:
    """The engine plugin of the tests, with a secret file and a command that nothing can start."""

    class Broken(type(engine)):  # type: ignore[misc]
        @hookimpl
        def llmgw_engine_commands(self, shard: Shard, launch: Launch) -> tuple[Command, ...]:
            (command,) = super().llmgw_engine_commands(shard, launch)
            files = {f"{launch.work_dir}/secret": SecretStr("engine-key")}
            return (command.model_copy(update={"secret_files": files, **broken}),)

    return PluginHost.of(Broken())


@pytest.mark.e2e
@pytest.mark.parametrize(
    "broken", ({"argv": ("/no/such/program",)}, {"argv": ("/bin/true", "a\0b")}, {"env": {"A=B": "x"}})
)
async def test_a_command_that_cannot_be_started_fails_its_shard_and_leaves_no_secret(
    broken: dict[str, Any], node: Any, make_shard: MakeShard, fake_engine: Any
) -> None:
    node.plugins = _cannot_start(fake_engine, **broken)
    shard = make_shard()
    async with node.agent():
        await node.control.run(shard)
        failed = await node.control.reaches(shard, "Failed")
        work = node.config.state_dir / "work"
        await node.control.until(lambda: not list(work.glob("*/*")))
    assert failed.failure.failure == "agent"
    assert "engine cannot be started" in failed.failure.detail


@pytest.mark.e2e
async def test_what_a_reboot_left_goes_with_the_record(node: Any, make_shard: MakeShard) -> None:
    shard = make_shard()
    async with node.agent():
        await node.control.run(shard)
        await node.control.reaches(shard, "Ready")
    for pid in node.left():
        await node.kill(pid)
    work = node.config.state_dir / "work" / f"{shard.replica}-{shard.rank}"
    (work / "secret").touch()
    async with node.agent():
        await node.control.reaches(shard, "Failed")
        await node.control.assign(dismiss=(shard.shard,))
        await node.control.until(lambda: not work.exists())
