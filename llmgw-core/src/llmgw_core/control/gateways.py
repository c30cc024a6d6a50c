"""The control plane's end of the gateway streams: tables and keys down, load and usage up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import anyio
from pydantic import SecretStr

from llmgw_core.control.conversation import converse, refuse
from llmgw_core.control.events import EventLog
from llmgw_core.ports import Clock, Store, StoreFacts, Stream
from llmgw_core.spec import (
    NO_EPOCH,
    WIRE_VERSION,
    ApiKey,
    Bye,
    Epoch,
    GatewayHello,
    GatewayLoad,
    Keys,
    Secrets,
    StoreError,
    StreamEnded,
    StreamError,
    StreamRefused,
    Table,
    Usage,
    UsageStored,
    Value,
    Welcome,
    WireError,
    decode_gateway,
    encode,
)
from llmgw_core.timers import Timers

GREETING_TIMEOUT = 10.0
GONE_AFTER = 10.0
"""Seconds after which a gateway that lost its stream, or has not come back to a new process, is gone."""


@dataclass(eq=False)
class GatewaySession:
    """One stream of one gateway process. Of tables and keys only the newest waits to be sent."""

    instance: str
    stream: Stream
    load: GatewayLoad | None = None
    _waiting: dict[str, Value] = field(default_factory=dict)
    _more: anyio.Event = field(default_factory=anyio.Event)

    def post(self, slot: str, message: Value) -> None:
        """Hand a message to the writer; it replaces one of the same slot that has not left yet."""
        self._waiting[slot] = message
        self._more.set()

    async def write(self) -> None:
        """The only task that sends on this stream. Raises StreamEnded."""
        while True:
            await self._more.wait()
            self._more = anyio.Event()
            while self._waiting:
                slot = next(iter(self._waiting))
                await self.stream.send(encode(self._waiting.pop(slot)))


class GatewayHub:
    """Serves the streams of all gateways."""

    def __init__(
        self,
        store: Store,
        facts: StoreFacts,
        *,
        control: str,
        is_foreign: Callable[[Epoch], bool],
        events: EventLog,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self._store, self._facts, self._control = store, facts, control
        self._is_foreign, self._events, self._timers = is_foreign, events, timers
        self._clock, self._begun = clock, clock.monotonic()
        self._sessions: set[GatewaySession] = set()
        self._away: dict[str, tuple[float, GatewayLoad | None]] = {}
        self._draining: dict[str, tuple[int, int]] = {}
        self._table: Table | None = None
        self._keys: Keys | None = None
        self.met = NO_EPOCH
        """The highest epoch of another leader whose table a gateway has seen; the loop acts on it."""

    def in_flight(self) -> Mapping[str, int]:
        """Requests that gateways have open, by replica."""
        total: Counter[str] = Counter()
        for load in self._loads():
            if load is not None:
                total.update(load.in_flight)
        return total

    @property
    def settled(self) -> bool:
        """Whether every gateway that lives has had the time to find this process."""
        return self._clock.monotonic() - self._begun >= GONE_AFTER

    def still_routed(self) -> frozenset[str]:
        """Draining replicas that some gateway has not confirmed to have left."""
        loads = self._loads()
        return frozenset(
            replica
            for replica, table in self._draining.items()
            if any(_is_behind(load, table) for load in loads)
        )

    def _loads(self) -> list[GatewayLoad | None]:
        """The last word of every gateway, also of those whose stream has just broken."""
        oldest = self._clock.monotonic() - GONE_AFTER
        self._away = {name: last for name, last in self._away.items() if last[0] >= oldest}
        return [session.load for session in self._sessions] + [load for _, load in self._away.values()]

    @property
    def live(self) -> int:
        """How many gateways are connected."""
        return len(self._sessions)

    def enter(self, session: GatewaySession) -> None:
        """A gateway is connected."""
        self._sessions.add(session)
        self._away.pop(session.instance, None)

    def leave(self, session: GatewaySession) -> None:
        """Its stream has ended; its requests may go on."""
        self._sessions.discard(session)
        self._away[session.instance] = (self._clock.monotonic(), session.load)

    def publish_table(self, table: Table) -> None:
        """Make this the table of every gateway."""
        self._table = table
        now = (table.epoch.number, table.version)
        draining = [endpoint.replica for endpoint in table.endpoints if endpoint.state == "draining"]
        self._draining = {replica: self._draining.get(replica, now) for replica in draining}
        for session in self._sessions:
            session.post("table", table)

    def publish_keys(self, keys: tuple[ApiKey, ...]) -> None:
        """Make these the keys of every gateway: what is not among them is revoked."""
        self._keys = Keys(seq=self._keys.seq + 1 if self._keys else 1, changed=keys)
        for session in self._sessions:
            session.post("keys", self._keys)

    async def serve(self, stream: Stream) -> None:
        """Run one stream to its end."""
        try:
            hello = await self._greeting(stream)
        except StreamRefused as refusal:
            await refuse(stream, refusal)
            return
        except StreamError:
            return
        session = GatewaySession(hello.instance, stream)
        self._meet(hello.heard)
        self._greet(session)
        self.enter(session)
        try:
            await converse(partial(self._read, session), session.write)
        finally:
            self.leave(session)

    async def _greeting(self, stream: Stream) -> GatewayHello:
        with anyio.move_on_after(GREETING_TIMEOUT):
            message = decode_gateway(await stream.receive())
            if not isinstance(message, GatewayHello):
                raise StreamRefused("protocol", "the first message of a gateway must be hello")
            if message.wire != WIRE_VERSION:
                text = f"wire version {message.wire} is not {WIRE_VERSION}"
                raise StreamRefused(
                    "wire_version", text, fix="upgrade the older of gateway and control plane"
                )
            if message.cluster not in (None, self._facts.cluster):
                raise StreamRefused("wrong_cluster", "this gateway belongs to another cluster")
            return message
        raise StreamEnded("no hello within the time limit")

    def _greet(self, session: GatewaySession) -> None:
        welcome = Welcome(
            cluster=self._facts.cluster, control=self._control, leader=True, report_every=self._timers.report
        )
        session.post("welcome", welcome)
        session.post(
            "secrets",
            Secrets(
                engine_keys={
                    version: SecretStr(secret.hex()) for version, secret in self._facts.engine_secrets.items()
                },
                pepper=SecretStr(self._facts.pepper.hex()),
            ),
        )
        if self._keys is not None:
            session.post("keys", self._keys)
        if self._table is not None:
            session.post("table", self._table)

    async def _read(self, session: GatewaySession) -> None:
        while True:
            try:
                message = decode_gateway(await session.stream.receive())
            except WireError as error:
                self._events.add("protocol_error", f"gateway {session.instance}", str(error))
                return
            if isinstance(message, GatewayLoad):
                session.load = message
                self._meet(message.heard)
            elif isinstance(message, Usage):
                await self._store_usage(session, message)
            elif isinstance(message, Bye):
                return

    def _meet(self, heard: Epoch) -> None:
        if heard.number >= self.met.number and self._is_foreign(heard):
            self.met = heard

    async def _store_usage(self, session: GatewaySession, usage: Usage) -> None:
        try:
            await self._store.add_usage(usage.rows)
        except StoreError as error:
            # Unanswered, the gateway keeps the batch in its journal and sends it again.
            self._events.add("usage_waits", f"gateway {session.instance}", str(error))
            return
        session.post(f"usage {usage.batch}", UsageStored(batch=usage.batch))


def _is_behind(load: GatewayLoad | None, table: tuple[int, int]) -> bool:
    """Whether a gateway has not said that it follows this table (epoch, version) or a later one."""
    return load is None or (load.heard.number, load.table_version) < table
