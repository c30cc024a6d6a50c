"""The only file that starts programs and sends signals."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from llmgw_agent import procfs
from llmgw_agent.process import LinuxProc, run_command
from llmgw_core.ports import Exit, ProcessId

pytestmark = pytest.mark.anyio

Spawn = Callable[..., Awaitable[ProcessId]]
SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def proc(tmp_path: Path) -> LinuxProc:
    return LinuxProc(str(tmp_path))


@pytest.fixture
async def spawn(proc: LinuxProc, tmp_path: Path, python: str) -> AsyncIterator[Spawn]:
    """Start a Python program with the marker of a shard; what still runs at the end is killed."""
    started: list[ProcessId] = []

    async def start(code: str, **env: str) -> ProcessId:
        marked = {"LLMGW_SHARD": "r-a/0:t1", "LLMGW_PROCESS": "engine", **env}
        output = str(tmp_path / "out.log")
        identity = await proc.spawn(
            [python, "-S", "-c", code], marked, token="t1", work_dir=str(tmp_path), output=output
        )
        started.append(identity)
        return identity

    yield start
    for identity in started:
        proc.signal(identity, "KILL", group=True)
        await proc.wait(identity)


async def test_a_program_runs_in_its_own_session_with_exactly_the_given_environment(
    spawn: Spawn, tmp_path: Path
) -> None:
    identity = await spawn(SLEEP, EXTRA="1")
    assert os.getsid(identity.pid) == identity.pid
    environ = procfs.environ(identity.pid)
    assert environ is not None
    assert environ == {
        "LLMGW_SHARD": "r-a/0:t1",
        "LLMGW_PROCESS": "engine",
        "LLMGW_OWNER": str(tmp_path),
        "EXTRA": "1",
    }


async def test_output_is_appended_to_a_file_that_only_the_owner_reads(
    proc: LinuxProc, spawn: Spawn, tmp_path: Path
) -> None:
    for text in ("one", "two"):
        identity = await spawn(f"import sys; print({text!r}); print('e', file=sys.stderr)")
        await proc.wait(identity)
    assert (tmp_path / "out.log").read_text().split() in (["one", "e", "two", "e"], ["e", "one", "e", "two"])
    assert (tmp_path / "out.log").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("code", "end"),
    (
        ("raise SystemExit(5)", Exit(code=5)),
        ("pass", Exit(code=0)),
        ("import os; os.kill(os.getpid(), 11)", Exit(signal="SEGV")),
    ),
)
async def test_the_exit_of_a_child_is_told_and_no_zombie_is_left(
    proc: LinuxProc, spawn: Spawn, code: str, end: Exit
) -> None:
    identity = await spawn(code)
    with anyio.fail_after(60):
        assert await proc.wait(identity) == end
    assert procfs.stat(identity.pid) is None
    assert not proc.alive(identity)


async def test_the_end_of_a_process_that_is_not_our_child_is_seen(proc: LinuxProc, python: str) -> None:
    # The shell leaves its child behind, which then belongs to init.
    shell = subprocess.run(
        ["/bin/sh", "-c", f"'{python}' -S -c '{SLEEP}' >/dev/null 2>&1 & echo $!"],
        capture_output=True,
        check=True,
        env={"LLMGW_SHARD": "r-a/0:t2"},
        text=True,
    )
    pid = int(shell.stdout)
    found = procfs.stat(pid)
    assert found is not None
    stranger = ProcessId(pid, found.started, procfs.boot_id(), "t2")
    assert proc.alive(stranger)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            ends: list[Exit] = []

            async def wait() -> None:
                ends.append(await proc.wait(stranger))

            group.start_soon(wait)
            # The shell that became this program may still be between fork and exec.
            while not proc.signal(stranger, "KILL", group=False) and proc.alive(stranger):
                await anyio.sleep(0.01)
    assert ends == [Exit()]


async def test_a_program_that_is_not_there_is_an_error(proc: LinuxProc, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await proc.spawn(
            [str(tmp_path / "nothing")], {}, token="t", work_dir=str(tmp_path), output=str(tmp_path / "log")
        )


@pytest.mark.parametrize("wrong", ("started", "boot", "token"))
async def test_a_stranger_under_a_reused_pid_is_never_signalled(
    proc: LinuxProc, spawn: Spawn, wrong: str
) -> None:
    identity = await spawn(SLEEP)
    changed = replace(identity, **{wrong: 1 if wrong == "started" else "other"})  # type: ignore[arg-type]
    assert not proc.signal(changed, "KILL", group=True)
    assert proc.alive(identity)


async def test_waiting_for_a_reused_pid_returns_at_once(proc: LinuxProc, spawn: Spawn) -> None:
    identity = await spawn(SLEEP)
    with anyio.fail_after(60):
        assert await proc.wait(replace(identity, started=1)) == Exit()


async def test_a_group_signal_reaches_the_whole_session(proc: LinuxProc, spawn: Spawn) -> None:
    code = (
        "import subprocess, sys, time\n"
        f"[subprocess.Popen([sys.executable, '-S', '-c', {SLEEP!r}], process_group=g) for g in (None, 0)]\n"
        "time.sleep(600)"
    )
    identity = await spawn(code)
    with anyio.fail_after(60):
        while len(await proc.scan()) < 3:
            await anyio.sleep(0.02)
        assert proc.signal(identity, "KILL", group=True)
        await proc.wait(identity)
        while await proc.scan():
            await anyio.sleep(0.02)


async def test_the_scan_finds_exactly_what_carries_the_marker_of_this_agent(
    proc: LinuxProc, spawn: Spawn, tmp_path: Path
) -> None:
    identity = await spawn(SLEEP, LLMGW_SPEC='{"a":1}')
    other = LinuxProc(str(tmp_path / "other"))
    (seen,) = await proc.scan()
    assert (seen.id, seen.shard, seen.spec) == (identity, "r-a/0", '{"a":1}')
    assert (seen.process, seen.leader) == ("engine", True)
    assert await other.scan() == ()


async def test_a_zombie_is_not_in_the_scan(proc: LinuxProc, spawn: Spawn) -> None:
    identity = await spawn("pass")
    with anyio.fail_after(60):
        while (found := procfs.stat(identity.pid)) and not found.dead:
            await anyio.sleep(0.01)
    assert await proc.scan() == ()
    assert not proc.alive(identity)


def test_a_short_command_gives_its_output_and_code(python: str) -> None:
    result = run_command((python, "-S", "-c", "print('out'); raise SystemExit(3)"), 60.0)
    assert result is not None
    assert (result.code, result.stdout, result.timed_out) == (3, "out\n", False)


def test_a_command_that_hangs_is_ended_with_what_it_has_started(python: str) -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {SLEEP!r}])"
    result = run_command((python, "-S", "-c", code), 0.5)
    assert result is not None
    assert result.timed_out


def test_a_program_that_is_not_there_gives_nothing(tmp_path: Path) -> None:
    assert run_command((str(tmp_path / "nothing"),), 1.0) is None
