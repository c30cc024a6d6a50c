"""Port Proc on Linux, and short commands: the only file that starts programs and sends signals."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import anyio
from anyio import to_thread
from llmgw_core.ports import Exit, ProcessId, ProcessSeen
from llmgw_core.spec.node import CommandResult

from llmgw_agent import procfs

MARKER = "LLMGW_SHARD"
"""`<shard id>:<token>` in the environment of every process of a shard."""
SPEC = "LLMGW_SPEC"
PROCESS = "LLMGW_PROCESS"
OWNER = "LLMGW_OWNER"
"""The state directory of the agent that started it: two agents may share a machine."""
_SIGNALS = {"TERM": signal.SIGTERM, "INT": signal.SIGINT, "KILL": signal.SIGKILL}
_MAX_OUTPUT = 1024 * 1024


class LinuxProc:
    """Processes of this machine that belong to the agent with the state directory `owner`."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._boot = procfs.boot_id()

    def boot_id(self) -> str:
        """Identity of this boot of the machine."""
        return self._boot

    async def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, token: str, work_dir: str, output: str
    ) -> ProcessId:
        """Start a program in a session of its own. Raises OSError when it cannot be started."""
        marked = {**env, OWNER: self._owner}
        # Shielded: a process that was forked but not handed back would be nobody's.
        with anyio.CancelScope(shield=True):
            pid = await to_thread.run_sync(_spawn, list(argv), marked, work_dir, output)
        found = procfs.stat(pid)
        if found is None:  # impossible as long as nobody else reaps our children
            raise ProcessLookupError(f"pid {pid} vanished while it was started")
        return ProcessId(pid, found.started, self._boot, token)

    def alive(self, process: ProcessId) -> bool:
        """Whether exactly this process is there and not a zombie."""
        found = self._find(process)
        return found is not None and not found.dead

    async def wait(self, process: ProcessId) -> Exit:
        """Return when it is gone; works also for a process that is not our child."""
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return Exit()
        try:
            if self._find(process) is None:
                return Exit()
            await anyio.wait_readable(descriptor)
            return _reap(descriptor)
        finally:
            os.close(descriptor)

    def signal(self, process: ProcessId, name: str, *, group: bool) -> bool:
        """Send TERM, INT or KILL, to its whole session and group if asked; False when it is not there."""
        number = _SIGNALS[name]
        if not self._send(process, number):
            return False
        if group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            self._send_session(process, number)
        return True

    async def scan(self) -> tuple[ProcessSeen, ...]:
        """Every live process that carries our marker, in pid order."""
        return await to_thread.run_sync(self._scan)

    def _find(self, process: ProcessId) -> procfs.Stat | None:
        if process.boot != self._boot:
            return None
        found = procfs.stat(process.pid)
        return found if found and found.started == process.started else None

    def _send(self, process: ProcessId, number: int) -> bool:
        """Signal one process, after its whole identity was checked on the very process that is signalled."""
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.alive(process) or _token(process.pid) != process.token:
                return False
            signal.pidfd_send_signal(descriptor, number)
        except (ProcessLookupError, PermissionError):
            return False
        finally:
            os.close(descriptor)
        return True

    def _send_session(self, process: ProcessId, number: int) -> None:
        for pid in procfs.pids():
            found = procfs.stat(pid)
            if found and found.session == process.pid and pid != process.pid and not found.dead:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)

    def _scan(self) -> tuple[ProcessSeen, ...]:
        seen = (self._look(pid) for pid in sorted(procfs.pids()))
        return tuple(process for process in seen if process)

    def _look(self, pid: int) -> ProcessSeen | None:
        before = procfs.stat(pid)
        environ = procfs.environ(pid)
        if before is None or before.dead or not environ or environ.get(OWNER) != self._owner:
            return None
        shard, _, token = environ.get(MARKER, "").rpartition(":")
        after = procfs.stat(pid)
        if not shard or after is None or after.started != before.started:
            return None
        return ProcessSeen(
            ProcessId(pid, before.started, self._boot, token),
            shard,
            environ.get(SPEC),
            process=environ.get(PROCESS, ""),
            leader=before.session == pid,
        )


def run_command(argv: tuple[str, ...], timeout: float) -> CommandResult | None:
    """Run a short command with a limit in seconds, its output cut at 1 MiB. None: it cannot be started.

    Blocks: call it from a thread.
    """
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError:
        return None
    with child:
        timed_out = False
        try:
            out, err = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            # The group: a wrapper's child would keep the pipes open, and communicate() waiting.
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
    return CommandResult(code=child.returncode, stdout=_text(out), stderr=_text(err), timed_out=timed_out)


def _text(output: bytes) -> str:
    return output[:_MAX_OUTPUT].decode(errors="replace")


def _spawn(argv: list[str], env: dict[str, str], work_dir: str, output: str) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    log = os.open(output, flags, 0o600)
    try:
        child = subprocess.Popen(
            argv,
            env=env,
            cwd=work_dir,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    # Reaping is done by pidfd, and an engine outlives this agent: without a return code the object would
    # warn when it is dropped, and Popen would wait for the pid behind our back.
    child.returncode = 0
    _wait_for_environ(child.pid)
    return child.pid


def _wait_for_environ(pid: int) -> None:
    """The kernel lets the parent go on before the new program's environment can be read.

    Without it the process could not be identified, and so not be signalled, for its first moments.
    """
    while not procfs.environ(pid) and (found := procfs.stat(pid)) and not found.dead:
        time.sleep(0.001)


def _reap(descriptor: int) -> Exit:
    try:
        ended = os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return Exit()  # not our child: whoever is its parent learns how it ended
    if ended is None:
        return Exit()
    if ended.si_code == os.CLD_EXITED:
        return Exit(code=ended.si_status)
    return Exit(signal=signal.Signals(ended.si_status).name.removeprefix("SIG"))


def _token(pid: int) -> str | None:
    environ = procfs.environ(pid)
    return environ.get(MARKER, "").rpartition(":")[2] if environ else None
