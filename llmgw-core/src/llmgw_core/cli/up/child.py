"""A child process of `llmgw up`: started once, known for sure by pid, start time and boot."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio


@dataclass(frozen=True)
class ChildSpec:
    """What to run. `fingerprint` covers everything that a running child cannot take in any more.

    `leave` ends it while what it looks after goes on: the agent's engines, for instance. `after` is an
    address (`host:port`) that should accept connections before it is started for the first time.
    """

    name: str
    argv: tuple[str, ...]
    log: Path
    fingerprint: str
    leave: signal.Signals = signal.SIGTERM
    after: str | None = None


@dataclass(frozen=True)
class ChildId:
    """A process, and what it was started from. `started` is in clock ticks since `boot`."""

    pid: int
    started: int
    boot: str
    fingerprint: str


@dataclass
class Child:
    """A live process: our own child (`process`), or one that an earlier supervisor started (None)."""

    id: ChildId
    pidfd: int
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def adopted(self) -> bool:
        return self.process is None

    async def gone(self) -> int | None:
        """Wait for its end. The exit code, negative for a signal; None when it is not our own child."""
        await anyio.wait_readable(self.pidfd)
        return None if self.process is None else self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when it is gone already."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def close(self) -> None:
        os.close(self.pidfd)


def start(spec: ChildSpec, environment: Mapping[str, str]) -> Child:
    """Start a child in a session of its own, so that Ctrl-C reaches the supervisor only.

    Its output is appended to `spec.log`. Raises OSError.
    """
    with open(os.open(spec.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "wb") as log:
        process = subprocess.Popen(
            spec.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    # Not reaped by anybody before `gone`, so the pid is this process's for sure.
    started = start_time(process.pid) or 0
    identity = ChildId(process.pid, started, boot_id(), spec.fingerprint)
    return Child(identity, os.pidfd_open(process.pid), process)


def take_over(identity: ChildId) -> Child | None:
    """The running process of an earlier supervisor; None when it is gone or the pid is another's now."""
    try:
        pidfd = os.pidfd_open(identity.pid)
    except OSError:
        return None
    # Looked at after the pidfd was opened: from here on the pid cannot become another process unseen.
    if start_time(identity.pid) == identity.started and identity.boot == boot_id():
        return Child(identity, pidfd)
    os.close(pidfd)
    return None


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def boot_id() -> str:
    """Identity of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
