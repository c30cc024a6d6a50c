"""A simulated machine: its files and processes outlive the agent that made them."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from llmgw_core.ports import Exit, ProcessId, ProcessSeen
from llmgw_core.simulate.engine import BINARY, KEY, SimEngine
from llmgw_core.simulate.trace import Trace
from llmgw_core.spec import CommandResult

FIRST_PID = 1000
TERM_TAKES = 0.05


@dataclass
class _Process:
    id: ProcessId
    argv: tuple[str, ...]
    env: Mapping[str, str]
    engine: SimEngine
    ended: anyio.Event = field(default_factory=anyio.Event)
    exit: Exit | None = None


@dataclass
class Machine:
    """One machine. `load_seconds` is how long its engines load."""

    name: str
    address: str
    trace: Trace
    load_seconds: float = 3.0
    boot: str = "boot-1"
    files: dict[str, bytes] = field(default_factory=dict)
    processes: dict[int, _Process] = field(default_factory=dict)

    def engine_at(self, port: int) -> SimEngine | None:
        """The engine that listens on a port."""
        for process in self.processes.values():
            if process.exit is None and process.argv[-1] == str(port):
                return process.engine
        return None

    @property
    def live(self) -> tuple[ProcessId, ...]:
        """Every process that runs, in pid order."""
        return tuple(process.id for process in self.processes.values() if process.exit is None)


@dataclass
class SimProc:
    """Port Proc of one agent process on a machine."""

    machine: Machine

    def boot_id(self) -> str:
        """Identity of this boot."""
        return self.machine.boot

    async def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, token: str, work_dir: str, output: str
    ) -> ProcessId:
        """Start a simulated engine; nothing else can be started here."""
        await anyio.lowlevel.checkpoint()
        if posixpath.basename(argv[0]) != BINARY:
            raise FileNotFoundError(f"no program {argv[0]} on {self.machine.name}")
        pid = FIRST_PID + len(self.machine.processes)
        identity = ProcessId(
            pid=pid, started=int(anyio.current_time() * 100), boot=self.machine.boot, token=token
        )
        loaded = anyio.current_time() + self.machine.load_seconds
        engine = SimEngine(model=argv[-2], key=env.get(KEY, ""), loaded_at=loaded)
        self.machine.processes[pid] = _Process(identity, tuple(argv), dict(env), engine)
        self.machine.trace.add(self.machine.name, f"spawns {pid} for {env['LLMGW_SHARD'].split(':')[0]}")
        return identity

    def alive(self, process: ProcessId) -> bool:
        """Whether exactly this process runs."""
        return process in self.machine.live

    async def wait(self, process: ProcessId) -> Exit:
        """Wait for its end."""
        found = self.machine.processes.get(process.pid)
        if found is None or found.id != process:
            return Exit()
        await found.ended.wait()
        return found.exit or Exit()

    def signal(self, process: ProcessId, name: str, *, group: bool) -> bool:
        """TERM and INT end it soon, KILL at once."""
        if not self.alive(process):
            return False
        self.machine.trace.add(self.machine.name, f"signals {process.pid} {name}")
        if name == "KILL":
            self._end(process.pid, Exit(signal="KILL"))
        else:
            asyncio.get_running_loop().call_later(TERM_TAKES, self._end, process.pid, Exit(code=0))
        return True

    def _end(self, pid: int, how: Exit) -> None:
        process = self.machine.processes[pid]
        if process.exit is None:
            process.exit = how
            process.ended.set()
            self.machine.trace.add(self.machine.name, f"ends {pid}")

    async def scan(self) -> tuple[ProcessSeen, ...]:
        """Every live process with our marker."""
        await anyio.lowlevel.checkpoint()
        return tuple(
            ProcessSeen(
                process.id, process.env["LLMGW_SHARD"].rpartition(":")[0], process.env.get("LLMGW_SPEC")
            )
            for process in self.machine.processes.values()
            if process.exit is None and "LLMGW_SHARD" in process.env
        )


@dataclass
class SimDisk:
    """Port Disk over the files of a machine. An agent that was killed writes nothing any more."""

    machine: Machine
    dead: bool = False

    async def read(self, path: str) -> bytes | None:
        """Content of a file."""
        await anyio.lowlevel.checkpoint()
        return self.machine.files.get(path)

    async def write(self, path: str, content: bytes) -> None:
        """Write at once."""
        await anyio.lowlevel.checkpoint()
        if not self.dead:
            self.machine.files[path] = content

    async def remove(self, path: str) -> None:
        """Remove a file."""
        await anyio.lowlevel.checkpoint()
        if not self.dead:
            self.machine.files.pop(path, None)

    async def set_aside(self, path: str) -> str:
        """Rename a damaged file."""
        await anyio.lowlevel.checkpoint()
        self.machine.files[f"{path}.damaged"] = self.machine.files.pop(path)
        return f"{path}.damaged"

    async def names(self, directory: str) -> tuple[str, ...]:
        """Names right under a directory."""
        await anyio.lowlevel.checkpoint()
        prefix = directory.rstrip("/") + "/"
        below = (path.removeprefix(prefix) for path in self.machine.files if path.startswith(prefix))
        return tuple(sorted({name.split("/")[0] for name in below}))

    async def make_dir(self, path: str) -> None:
        """Directories are implied by files."""
        await anyio.lowlevel.checkpoint()

    async def tail(self, path: str, limit: int) -> str:
        """The last bytes of a file."""
        await anyio.lowlevel.checkpoint()
        return self.machine.files.get(path, b"")[-limit:].decode(errors="replace")


@dataclass
class SimHost:
    """HostView of a machine that has the simulated engine and nothing else."""

    machine: Machine

    def read_text(self, path: str) -> str | None:
        """There are no files to discover."""
        return None

    def list_dir(self, path: str) -> tuple[str, ...] | None:
        """There are no directories to discover."""
        return None

    def run(self, argv: tuple[str, ...], timeout: float) -> CommandResult | None:
        """The engine tells its version; every other program is missing."""
        if posixpath.basename(argv[0]) == BINARY:
            return CommandResult(code=0, stdout="1.0")
        return None
