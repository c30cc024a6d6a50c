"""What the daemons share: one per state directory, sockets with names, signals, sd_notify."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from llmgw_core.config import split_address
from llmgw_core.daemon import StateLock, bind, notify, stop_signals
from llmgw_core.listeners import listener
from llmgw_core.spec import ConfigError, PortInUse, StateDirError, StateDirHeld

HOLDER = """
import sys
from pathlib import Path
from llmgw_core.daemon import StateLock
with StateLock.take(Path(sys.argv[1]), "llmgw test") as lock:
    lock.note("serving http://there")
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_hears_who_holds_the_directory(tmp_path: Path) -> None:
    path = tmp_path / "made" / "test.lock"
    with holder(path) as process:
        with pytest.raises(StateDirHeld) as caught, StateLock.take(path, "me"):
            pytest.fail("two hold one directory")
        assert f"llmgw test (pid {process.pid}), serving http://there" in str(caught.value)
        assert caught.value.exit_code == 2


def test_the_lock_ends_with_its_process_however_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "test.lock"
    with holder(path):
        pass
    with StateLock.take(path, "me"):
        assert path.read_text() == f"me (pid {os.getpid()})\n"


def test_the_directory_is_private(tmp_path: Path) -> None:
    with StateLock.take(tmp_path / "made" / "test.lock", "me"):
        assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "made" / "test.lock").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("where", ("file/state", "/proc/state"))
def test_a_directory_that_cannot_be_made_is_told_with_its_path(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("in the way")
    path = tmp_path / where / "test.lock"
    with pytest.raises(StateDirError, match="cannot be made") as caught, StateLock.take(path, "me"):
        pytest.fail("held in a directory that is none")
    assert str(path.parent) in str(caught.value)


def test_children_do_not_inherit_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "test.lock"
    with StateLock.take(path, "me"):
        child = subprocess.Popen(["sleep", "600"])
    try:
        with StateLock.take(path, "me again"):
            assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_a_taken_port_names_pid_program_and_the_setting_that_chooses_another() -> None:
    with bind("127.0.0.1:0") as first:
        port = first.getsockname()[1]
        with pytest.raises(PortInUse) as caught:
            bind(f"127.0.0.1:{port}", setting="--port")
    assert f"(pid {os.getpid()})" in str(caught.value)
    assert "choose another with --port" in str(caught.value)


def test_nobody_listens_on_a_port_that_was_given_back() -> None:
    with bind("127.0.0.1:0") as first:
        port = first.getsockname()[1]
        found = listener(port)
    assert found is not None
    assert found.pid == os.getpid()
    assert listener(port) is None


def test_an_address_that_is_not_this_machines_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="cannot listen there"):
        bind("192.0.2.1:0")


def test_ipv6_addresses_are_understood() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        with bind("[::1]:0") as listening:
            assert listening.family == socket.AF_INET6
    except ConfigError as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")
    assert split_address("[::1]:80") == ("::1", 80)


def test_systemd_is_told_when_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify("READY=1")
        assert systemd.recv(100) == b"READY=1"
    (tmp_path / "notify").unlink()
    notify("STOPPING=1")
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")


@pytest.mark.anyio
async def test_the_first_signal_drains_and_each_later_one_stops() -> None:
    heard: list[str] = []
    async with anyio.create_task_group() as group:
        await group.start(stop_signals, lambda: heard.append("first"), lambda: heard.append("second"))
        for count, number in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGTERM), start=1):
            os.kill(os.getpid(), number)
            with anyio.fail_after(60):
                while len(heard) < count:
                    await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert heard == ["first", "second", "second"]
