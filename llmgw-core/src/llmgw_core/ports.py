"""The six ports: everything that llmgw asks of the world goes through one of them.

Real ones stand at the edges (`llmgw_core.system`, `llmgw_core.net`, `llmgw_core.store`, `llmgw_agent`);
`llmgw_core.simulate` has fakes in virtual time. Sleeping and time limits are anyio's own: they follow the
event loop's clock, which the simulator replaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from llmgw_core.spec import ApiKey, Epoch, Intent, UsageRow


class Clock(Protocol):
    """Two clocks, both in seconds."""

    def monotonic(self) -> float:
        """Never goes back, and counts while the machine sleeps; the only clock that decisions use."""

    def wall(self) -> float:
        """Seconds since 1970, for people and for expiry dates only."""


class Rand(Protocol):
    """Randomness: ids, tokens and jitter."""

    def token(self) -> str:
        """128 random bits as 32 hexadecimal digits."""

    def replica_id(self) -> str:
        """A new replica id: `r-` and 10 base32 characters (a-z, 2-7)."""

    def uniform(self) -> float:
        """A number in [0, 1), for jitter."""


class Stream(Protocol):
    """An ordered stream of text messages between two processes.

    One task receives; any task may send or close. Once it has ended, every call but `close` raises
    StreamEnded with the first reason. A cancelled `receive` may lose a message: cancel it only to leave.
    """

    async def send(self, text: str) -> None:
        """Send one message. Raises StreamEnded when the stream is gone or does not take it in time."""

    async def receive(self) -> str:
        """The next message. Raises StreamEnded with the reason when there will be none."""

    async def close(self) -> None:
        """End it; what was sent before still arrives. Closing twice is fine."""


@dataclass(frozen=True)
class HttpReply:
    """Answer to a bounded HTTP request; `body` holds at most the limit that was asked for."""

    status: int
    body: str


class Net(Protocol):
    """What an agent asks of the network."""

    def connect(self, url: str, token: str) -> AbstractAsyncContextManager[Stream]:
        """Open a stream (`ws://…`) with `Authorization: Bearer token`; leaving the block closes it.

        Entering raises StreamEnded when nobody answers and StreamRefused when the other side says no.
        What the block raises comes out as it is. StreamEnded may also come out of the block's end, when
        the connection broke under a block that was neither sending nor receiving.
        """

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: str | None, timeout: float
    ) -> HttpReply:
        """One HTTP request of at most `timeout` seconds and 64 KiB of answer. Raises OSError."""

    async def listening(self, host: str, port: int) -> bool:
        """Whether something accepts connections there (a TCP connect of at most a second)."""

    async def can_bind(self, host: str, port: int) -> bool:
        """Whether the port could be bound here now."""


@dataclass(frozen=True)
class ProcessId:
    """A process for sure: pids are reused, so nothing is signalled without a full match.

    `started` is the kernel's start time in clock ticks since boot; `token` is in its environment.
    """

    pid: int
    started: int
    boot: str
    token: str


@dataclass(frozen=True)
class ProcessSeen:
    """A process of the scan that carries our marker `LLMGW_SHARD=<shard>:<token>`."""

    id: ProcessId
    shard: str
    spec: str | None
    """The value of LLMGW_SPEC, as far as it can be read."""
    process: str = "engine"
    """Which command of the shard it is, or descends from (LLMGW_PROCESS)."""
    leader: bool = True
    """Whether it leads its session, as each command does and its children usually do not."""


@dataclass(frozen=True)
class Exit:
    """How a process ended; both None when it was not our child and only its absence is known."""

    code: int | None = None
    signal: str | None = None


class Proc(Protocol):
    """Processes of this node."""

    def boot_id(self) -> str:
        """Identity of this boot of the machine."""

    async def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, token: str, work_dir: str, output: str
    ) -> ProcessId:
        """Start a program in a session of its own, stdout and stderr appended to the file `output`.

        `env` is its whole environment. Raises OSError when it cannot be started.
        """

    def alive(self, process: ProcessId) -> bool:
        """Whether exactly this process is there and not a zombie."""

    async def wait(self, process: ProcessId) -> Exit:
        """Return when it is gone; works also for a process that is not our child."""

    def signal(self, process: ProcessId, name: str, *, group: bool) -> bool:
        """Send TERM, INT or KILL, to its whole session and group if asked; False when it is not there."""

    async def scan(self) -> tuple[ProcessSeen, ...]:
        """Every live process that carries our marker, in pid order."""


class Disk(Protocol):
    """Files of the state directory. Paths are absolute; every method may raise OSError."""

    async def read(self, path: str) -> bytes | None:
        """Content of a file of at most 16 MiB; None when it is not there."""

    async def write(self, path: str, content: bytes) -> None:
        """Write atomically and durably (temporary file, fsync, rename, fsync of the directory), 0600."""

    async def remove(self, path: str) -> None:
        """Remove a file or an empty directory; nothing happens when it is not there."""

    async def set_aside(self, path: str) -> str:
        """Rename a damaged file out of the way and return its new path."""

    async def names(self, directory: str) -> tuple[str, ...]:
        """Sorted names in a directory; empty when it is not there."""

    async def make_dir(self, path: str) -> None:
        """Make a directory and its parents, 0700."""

    async def tail(self, path: str, limit: int) -> str:
        """The last `limit` bytes of a file as text, broken characters replaced; empty when not there."""


@dataclass(frozen=True)
class IntentChange:
    """Rows to write and shard ids whose rows go, in one transaction."""

    put: tuple[Intent, ...] = ()
    drop: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.put or self.drop)


@dataclass(frozen=True)
class CatalogRow:
    """A stored catalog: its revision (`<number>-<random>`), its text, and where it came from."""

    revision: str
    text: str
    origin: str


@dataclass(frozen=True)
class StoreFacts:
    """What a control plane reads once at its start. Secrets are kept out of repr."""

    cluster: str
    engine_secrets: Mapping[int, bytes] = field(repr=False)
    pepper: bytes = field(repr=False)


class Store(Protocol):
    """The database. Every method may raise StoreUnavailable; scheduling writes may raise Fenced."""

    async def facts(self) -> StoreFacts:
        """Cluster id and secrets; made on first use."""

    async def take_lead(self, control: str, above: int) -> Epoch:
        """Become leader with an epoch above the store's own and above `above`."""

    async def intents(self) -> tuple[Intent, ...]:
        """Every intent, ordered by shard id."""

    async def write_intents(self, epoch: Epoch, change: IntentChange) -> None:
        """Apply a change in one transaction. Raises Fenced when `epoch` is not the store's own."""

    async def latest_catalog(self) -> CatalogRow | None:
        """The newest catalog revision."""

    async def save_catalog(self, text: str, origin: str, token: str) -> CatalogRow:
        """Store a catalog as the newest revision; `token` is the random part of its name."""

    async def catalog_revisions(self) -> frozenset[str]:
        """Every revision that this store knows."""

    async def api_keys(self) -> tuple[ApiKey, ...]:
        """Keys that are neither revoked nor expired, ordered by id."""

    async def add_usage(self, rows: Sequence[UsageRow]) -> int:
        """Store rows once per id; the number of new ones."""


@dataclass(frozen=True)
class AgentPorts:
    """The ports that an agent stands on."""

    clock: Clock
    net: Net
    proc: Proc
    disk: Disk
    rand: Rand
