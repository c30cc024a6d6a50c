"""What every daemon needs of the machine: one per state directory, a socket, signals, sd_notify."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from llmgw_core.config import split_address
from llmgw_core.listeners import listener
from llmgw_core.os_errors import advice
from llmgw_core.spec.errors import ConfigError, PortInUse, StateDirError, StateDirHeld

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StateLock:
    """The lock file of a state directory, held by this process until it ends, however it ends."""

    def __init__(self, path: Path, descriptor: int, who: str) -> None:
        self._path = path
        self._descriptor = descriptor
        self._who = who

    @classmethod
    @contextmanager
    def take(cls, path: Path, who: str) -> Iterator[StateLock]:
        """Hold the lock file `path` as `who` (the program's name, for whoever comes second).

        Makes the directory, 0700, when it is not there. Raises StateDirHeld, naming pid and program of the
        holder, and StateDirError when the directory cannot be used.
        """
        descriptor = _open_lock(path)
        try:
            _lock(path, descriptor)
            lock = cls(path, descriptor, who)
            lock.note("")
            yield lock
        finally:
            # The file stays: were it removed, a third process could lock a new file while a second one
            # still waits on this one.
            os.close(descriptor)

    def note(self, text: str) -> None:
        """Leave a word (a URL, for instance) for whoever finds the directory held."""
        line = f"{self._who} (pid {os.getpid()}){', ' + text if text else ''}\n"
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, line.encode(), 0)
        except OSError as error:
            raise StateDirError(
                f"cannot be written: {error.strerror}", where=str(self._path), fix=advice(error)
            ) from None


def make_dir(directory: Path) -> None:
    """Make a directory of state and its parents; itself 0700. Raises StateDirError."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StateDirError(
            f"cannot be made: {error.strerror}",
            where=str(directory),
            fix=_choose_or(error),
        ) from None


def _open_lock(path: Path) -> int:
    make_dir(path.parent)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateDirError(
            f"cannot be written: {error.strerror}",
            where=str(path.parent),
            fix=_choose_or(error),
        ) from None


def _choose_or(error: OSError) -> str:
    known = advice(error) if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE} else None
    return known or "choose a directory that you can write to"


def _lock(path: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 500, 0).decode(errors="replace").strip() or "another process"
        raise StateDirHeld(
            f"in use by {holder}",
            where=str(path.parent),
            fix="stop it first, or choose another state directory",
        ) from None
    except OSError as error:
        raise StateDirError(
            f"cannot be locked: {error.strerror}",
            where=str(path.parent),
            fix="choose a directory on a local disk",
        ) from None


def bind(address: str, *, setting: str = "listen", host_setting: str | None = None) -> socket.socket:
    """A listening socket at `address` (`host:port`; port 0 takes any free one).

    It listens at once, so that the port is ours before anything else starts. Raises PortInUse naming the
    process that holds it, where that can be seen, and `setting`, which chooses another; raises
    ConfigError when the port is not allowed, or this machine has no such address, which `host_setting`
    (where that is another one) chooses.
    """
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(2048)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise _cannot_listen(error, address, setting, host_setting or setting) from None
    return listening


def _cannot_listen(error: OSError, address: str, setting: str, host_setting: str) -> PortInUse | ConfigError:
    port = split_address(address)[1]
    choose = f"choose another with {setting}"
    if isinstance(error, PermissionError):
        return ConfigError(f"port {port} needs more rights than this process has", where=address, fix=choose)
    if error.errno != errno.EADDRINUSE:
        another = f"choose an address of this machine with {host_setting}"
        return ConfigError(f"cannot listen there: {error.strerror or error}", where=address, fix=another)
    holder = listener(port)
    by = f"by {holder.program} (pid {holder.pid})" if holder else "by another process"
    return PortInUse(f"port {port} is in use {by}", where=address, fix=f"stop it, or {choose}")


def notify(text: str) -> None:
    """Tell systemd how it stands: `READY=1`, `STOPPING=1`, `WATCHDOG=1`; nothing without systemd."""
    target = os.environ.get("NOTIFY_SOCKET")
    if not target:
        return
    address = "\0" + target[1:] if target.startswith("@") else target
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        try:
            channel.sendto(text.encode(), address)
        except OSError:
            return  # the service manager went away; the service itself is fine


async def stop_signals(
    on_first: Callable[[], object],
    on_second: Callable[[], object],
    *,
    signals: Sequence[signal.Signals] = STOP_SIGNALS,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Call `on_first` at the first of `signals` and `on_second` at each later one, until cancelled.

    Run it with `await group.start(stop_signals, …)`: once that returns, no signal kills the process.
    """
    with anyio.open_signal_receiver(*signals) as received:
        task_status.started()
        seen = False
        async for _ in received:
            if seen:
                on_second()
            else:
                on_first()
            seen = True
