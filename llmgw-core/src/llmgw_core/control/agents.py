"""The control plane's end of the agent streams: registration, reports, one writer for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import anyio

from llmgw_core.control.conversation import converse, refuse
from llmgw_core.control.events import EventLog
from llmgw_core.control.fleet import Fleet, Node
from llmgw_core.ports import Clock, Rand, Stream
from llmgw_core.spec import (
    NO_EPOCH,
    WIRE_VERSION,
    Ack,
    AgentMessage,
    Assign,
    Bye,
    Epoch,
    Lead,
    LogsRequest,
    Register,
    Reply,
    Report,
    RequestFailed,
    ShardRecord,
    ShardStatus,
    StreamEnded,
    StreamError,
    StreamRefused,
    Unknown,
    Value,
    Welcome,
    WireError,
    decode,
    encode,
)
from llmgw_core.timers import Timers

GREETING_TIMEOUT = 10.0
TAKEOVER_TIMEOUT = 2.0
ANSWER_TIMEOUT = 10.0
MAX_OUTBOX = 256
SILENT_BEATS = 8


@dataclass
class AgentSession:
    """One stream of one agent process."""

    node: str
    instance: str
    stream: Stream
    _outbox: list[Value] = field(default_factory=list)
    _more: anyio.Event = field(default_factory=anyio.Event)
    _answers: dict[str, tuple[anyio.Event, list[Reply]]] = field(default_factory=dict)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def post(self, message: Value) -> None:
        """Hand a message to the writer. An assignment replaces one that has not left yet: newest wins."""
        if isinstance(message, Assign):
            self._outbox = [waiting for waiting in self._outbox if not isinstance(waiting, Assign)]
        self._outbox.append(message)
        if len(self._outbox) > MAX_OUTBOX:
            self.scope.cancel()
        self._more.set()

    async def write(self) -> None:
        """The only task that sends on this stream. Raises StreamEnded."""
        while True:
            await self._more.wait()
            self._more = anyio.Event()
            while self._outbox:
                await self.stream.send(encode(self._outbox.pop(0)))

    async def ask(self, request: LogsRequest, timeout: float) -> Reply | None:
        """Send a named operation and wait for its reply; None when there is none in time."""
        answered: tuple[anyio.Event, list[Reply]] = (anyio.Event(), [])
        self._answers[request.request] = answered
        try:
            self.post(request)
            with anyio.move_on_after(timeout):
                await answered[0].wait()
            return answered[1][0] if answered[1] else None
        finally:
            del self._answers[request.request]

    def answer(self, reply: Reply) -> None:
        """Give a reply to whoever asked; one that nobody waits for is dropped."""
        waiting = self._answers.get(reply.request)
        if waiting is not None:
            waiting[1].append(reply)
            waiting[0].set()


class AgentHub:
    """Serves the streams of all agents and keeps the fleet up to date."""

    def __init__(
        self,
        fleet: Fleet,
        *,
        cluster: str,
        control: str,
        epoch: Callable[[], Epoch],
        is_foreign: Callable[[Epoch], bool],
        wake: Callable[[], None],
        events: EventLog,
        clock: Clock,
        rand: Rand,
        timers: Timers,
    ) -> None:
        self._fleet, self._cluster, self._control = fleet, cluster, control
        self._epoch, self._is_foreign = epoch, is_foreign
        self._wake, self._events = wake, events
        self._clock, self._rand, self._timers = clock, rand, timers
        self._sessions: dict[str, AgentSession] = {}
        self.met = NO_EPOCH
        """The highest epoch of another leader that an agent has heard; the loop acts on it."""

    async def serve(self, stream: Stream) -> None:
        """Run one stream to its end. Whatever ends it is the agent's business to repair."""
        try:
            register = await self._greeting(stream)
            await self._make_room(register)
        except StreamRefused as refusal:
            await refuse(stream, refusal)
            return
        except WireError as error:
            self._events.add("protocol_error", "an agent", str(error))
            await refuse(stream, StreamRefused("protocol", str(error)))
            return
        except StreamError:
            return
        session = AgentSession(register.node, register.instance, stream)
        self._sessions[register.node] = session
        node = self._take(session, register)
        try:
            await self._converse(session, node)
        finally:
            self._leave(session, node)

    async def _greeting(self, stream: Stream) -> Register:
        with anyio.move_on_after(GREETING_TIMEOUT):
            message = decode(await stream.receive())
            if not isinstance(message, Register):
                raise StreamRefused("protocol", "the first message of an agent must be register")
            if message.wire != WIRE_VERSION:
                text = f"wire version {message.wire} is not {WIRE_VERSION}"
                raise StreamRefused("wire_version", text, fix="upgrade the older of agent and control plane")
            if message.cluster not in (None, self._cluster):
                text = f"node {message.node} belongs to another cluster"
                raise StreamRefused("wrong_cluster", text, fix="join it anew, or use its own control plane")
            return message
        raise StreamEnded("no register within the time limit")

    async def _make_room(self, register: Register) -> None:
        """A second stream of one node: the same process takes over; another one only if the first is dead."""
        while (old := self._sessions.get(register.node)) is not None:
            if old.instance != register.instance:
                # No shard has this name: any answer, also "unknown shard", proves that the agent lives.
                ping = LogsRequest(request=self._rand.token(), shard="", lines=0)
                if await old.ask(ping, TAKEOVER_TIMEOUT) is not None:
                    text = f"another agent is connected as node {register.node}"
                    fix = "stop one of the two, or give this one another node name"
                    raise StreamRefused("agent_identity_in_use", text, fix=fix)
            if self._sessions.get(register.node) is old:  # a third may have come while this one waited
                old.scope.cancel()
                return

    def _take(self, session: AgentSession, register: Register) -> Node:
        epoch, now = self._epoch(), self._clock.monotonic()
        node = self._fleet.node(register.node, now)
        sound = tuple(record for record in register.shards if _sound(record, register.node))
        for record in sound:
            # Half of a replica must be seen to be Lost when the node of the other half never comes.
            self._fleet.expect(record.shard, now)
        node.register(register.model_copy(update={"shards": sound}), session, epoch, now)
        welcome = Welcome(
            cluster=self._cluster, control=self._control, leader=True, report_every=self._timers.report
        )
        session.post(welcome)
        session.post(Lead(cluster=self._cluster, epoch=epoch))
        self._meet(register.heard)
        self._wake()
        return node

    async def _converse(self, session: AgentSession, node: Node) -> None:
        with session.scope:
            await converse(partial(self._read, session, node), session.write)

    async def _read(self, session: AgentSession, node: Node) -> None:
        while True:
            message = await self._next(session)
            if isinstance(message, Report):
                self._hear(session, node, message)
            elif isinstance(message, Reply):
                session.answer(message)
            elif isinstance(message, Bye):
                return

    async def _next(self, session: AgentSession) -> AgentMessage | Unknown:
        """The next message. Raises StreamEnded, also when nothing comes for eight beats or it is garbage."""
        limit = SILENT_BEATS * self._timers.report
        try:
            with anyio.fail_after(limit):
                return decode(await session.stream.receive())
        except TimeoutError:
            raise StreamEnded(f"no report for {limit:g} s") from None
        except WireError as error:
            self._events.add("protocol_error", session.node, str(error))
            raise StreamEnded(str(error)) from None

    def _hear(self, session: AgentSession, node: Node, report: Report) -> None:
        if node.stream is not session:
            return  # it was under way on a stream that another has taken over from
        before = (node.refused, node.applied, _news(node.shards.values()))
        said = (report.refused, report.applied or node.applied, _news(report.shards))
        changed = said != before or report.echo is not None or report.report is not None
        node.hear(report, self._clock.monotonic())
        session.post(Ack(seq=report.seq))
        self._meet(report.heard)
        if changed:
            self._wake()

    def _meet(self, heard: Epoch) -> None:
        if heard.number >= self.met.number and self._is_foreign(heard):
            self.met = heard

    def _leave(self, session: AgentSession, node: Node) -> None:
        if self._sessions.get(session.node) is session:
            del self._sessions[session.node]
        if node.stream is session:
            node.stream = None
        self._wake()

    def lead(self, epoch: Epoch) -> None:
        """Tell every connected agent of a new leadership."""
        for session in self._sessions.values():
            session.post(Lead(cluster=self._cluster, epoch=epoch))

    async def logs(self, node: str, shard: str, lines: int) -> str:
        """The last lines of a shard's output. Raises RequestFailed when the node cannot answer."""
        session = self._sessions.get(node)
        if session is None:
            raise RequestFailed(f"node {node} is not connected", where=shard, fix="read its log on the node")
        request = LogsRequest(request=self._rand.token(), shard=shard, lines=lines)
        reply = await session.ask(request, ANSWER_TIMEOUT)
        if reply is None:
            raise RequestFailed(f"node {node} did not answer within {ANSWER_TIMEOUT:g} s", where=shard)
        if reply.error:
            raise RequestFailed(reply.error, where=shard)
        return reply.text


def _news(shards: Iterable[ShardStatus]) -> list[tuple[object, ...]]:
    """What of a report is worth a pass at once: times and progress change in every one of them."""
    return [(status.shard, status.state, status.goal, status.failure) for status in shards]


def _sound(record: ShardRecord, node: str) -> bool:
    """Whether a reported Shard is what this node may report; anything else could confuse placement."""
    shard = record.shard
    in_range = 0 <= shard.rank < shard.world == len(shard.peers)
    named = record.status.shard == shard.shard == f"{shard.replica}/{shard.rank}"
    return in_range and named and shard.node == node and math.isfinite(record.status.for_seconds)
