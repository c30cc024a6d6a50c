"""One stream to one control plane, from register to its end."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable

import anyio
from llmgw_core.node import assignment
from llmgw_core.node.effects import Effect
from llmgw_core.node.resources import Capacity
from llmgw_core.node.state import NodeState
from llmgw_core.ports import Stream
from llmgw_core.spec import (
    Ack,
    Assign,
    Bye,
    ByeReason,
    Epoch,
    Lead,
    LogsRequest,
    ProbeRequest,
    Refused,
    Reply,
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

from llmgw_agent.reporter import NodeLink, Reporter

log = logging.getLogger(__name__)

SILENT_BEATS = 8
"""Beats without an ack after which a side closes its stream: a one-way cut looks fine to TCP."""
_SHORTEST_BEAT = 0.1
_MAX_REPLIES = 16


class Session:
    """Speaks on an open stream: one reader, one writer, until either side ends it."""

    def __init__(self, link: NodeLink, stream: Stream, patience: float) -> None:
        self._link = link
        self._stream = stream
        self._clock = link.ports.clock
        self._patience = patience
        self._beat = patience / SILENT_BEATS
        self._reporter = Reporter(link)
        self._led: Epoch | None = None
        self._replies: deque[Value] = deque()
        self._asked = 0
        self._wake = anyio.Event()
        self._reason = ""
        self._bye: ByeReason | None = None

    async def run(self) -> str:
        """Register, then speak until the stream ends; the reason.

        Raises StreamEnded and StreamRefused when it ends before the welcome.
        """
        await self._register()
        self._last_ack = self._clock.monotonic()
        async with anyio.create_task_group() as group:
            self._group = group
            for task in (self._read, self._write, self._follow_changes, self._wait_for_leave):
                group.start_soon(self._until_the_end, task)
        if self._bye:
            await self._say_bye(self._bye)
        return self._reason

    async def _register(self) -> None:
        await self._send(self._reporter.register())
        welcome = await self._answer()
        self._beat = max(welcome.report_every, _SHORTEST_BEAT)
        self._patience = SILENT_BEATS * self._beat
        await self._join(welcome.cluster)

    async def _answer(self) -> Welcome:
        with anyio.move_on_after(self._patience):
            while True:
                match decode(await self._stream.receive()):
                    case Welcome() as welcome:
                        return welcome
                    case Refused(code=code, message=message, fix=fix):
                        raise StreamRefused(code, message, fix=fix)
                    case Bye(reason=reason, message=message):
                        raise StreamRefused(reason, message or reason)
                    case other:
                        log.debug("%s before the welcome is ignored", type(other).__name__)
        raise StreamEnded(f"no welcome within {self._patience:g} s")

    async def _join(self, cluster: str) -> None:
        """Belong to this cluster from now on. Raises StreamRefused when the node belongs to another."""
        state = self._link.keeper.state
        if state.cluster is None:
            state = await self._link.keeper.update(lambda now: assignment.take_cluster(now, cluster) or now)
        if state.cluster != cluster:
            await self._say_bye("wrong_cluster")
            raise StreamRefused(
                "wrong_cluster",
                f"this node belongs to cluster {state.cluster}, not to {cluster}",
                fix="point control_planes at the right cluster, or start with an empty state_dir",
            )

    # --- reading ------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            match decode(await self._stream.receive()):
                case Ack(seq=seq):
                    await self._acknowledged(seq)
                case Lead() as lead:
                    await self._lead(lead)
                case Assign() as assign:
                    await self._assign(assign)
                case LogsRequest() | ProbeRequest() as asked:
                    self._begin_reply(asked)
                case Bye(reason=reason, message=message):
                    self._finish(f"the control plane said bye: {message or reason}")
                case Refused(code=code, message=message):
                    self._finish(f"refused ({code}): {message}")
                case Unknown(type=kind):
                    log.warning("a message of the unknown type %r is ignored", kind)
                case other:
                    log.warning("a %s is not for an agent; ignored", type(other).__name__)

    async def _acknowledged(self, seq: int) -> None:
        self._last_ack = self._clock.monotonic()
        ended = self._reporter.acknowledged(seq)
        led, state = self._led, self._link.keeper.state
        known = {shard for shard in ended if (record := state.records.get(shard)) and record.seen_by == led}
        if led is not None and ended - known:
            await self._link.keeper.update(lambda state: assignment.acknowledged(state, ended, led))

    async def _lead(self, lead: Lead) -> None:
        if lead.cluster != self._link.keeper.state.cluster:
            self._finish(f"a leader of another cluster ({lead.cluster})", "wrong_cluster")
            return
        taken = False

        def take(state: NodeState) -> NodeState:
            nonlocal taken
            new = assignment.take_lead(state, lead)
            taken = new is not None
            return new or state

        await self._link.keeper.update(take)
        if taken:
            self._led = lead.epoch
            self._reporter.echo(lead.epoch)
            self._wake.set()
        else:
            log.warning("leader %s of epoch %d is stale; ignored", lead.epoch.control, lead.epoch.number)

    async def _assign(self, assign: Assign) -> None:
        link = self._link
        if link.draining.is_set():
            return  # not applied, so the leader knows that none of it was begun
        if reason := assignment.fenced(link.keeper.state, assign):
            log.warning("an assignment is not acted on: %s", reason)
            return
        report = link.report()
        effects: tuple[Effect, ...] = ()

        def take(state: NodeState) -> NodeState:
            nonlocal effects
            if link.draining.is_set():
                return state
            state, effects = assignment.take_assign(
                state,
                assign,
                self._clock.monotonic(),
                link.ports.proc.boot_id(),
                link.ports.rand.token,
                capacity=Capacity(cpus=report.cpus, memory_mib=report.memory_mib),
            )
            return state

        await link.keeper.update(take)
        # No await between the two: what is decided on disk must be begun, also when this stream ends now.
        link.supervisor.apply(effects)

    def _begin_reply(self, asked: LogsRequest | ProbeRequest) -> None:
        if self._asked >= _MAX_REPLIES:
            log.warning("request %s is dropped: %d are being answered", asked.request, self._asked)
            return
        self._asked += 1
        self._group.start_soon(self._reply, asked)

    async def _reply(self, asked: LogsRequest | ProbeRequest) -> None:
        try:
            reply = await self._reply_to(asked)
        except OSError as error:
            reply = Reply(request=asked.request, error=str(error))
        self._asked -= 1
        self._replies.append(reply)
        self._wake.set()

    async def _reply_to(self, asked: LogsRequest | ProbeRequest) -> Reply:
        record = self._link.keeper.state.records.get(asked.shard)
        if record is None:
            return Reply(request=asked.request, error=f"{asked.shard} is not known on this node")
        if isinstance(asked, LogsRequest):
            return Reply(request=asked.request, text=await self._link.logs.merged(record, asked.lines))
        readiness = await self._link.supervisor.probe(asked.shard)
        return Reply(request=asked.request, text="ready" if readiness.ready else readiness.reason)

    # --- writing ------------------------------------------------------------------------------------

    async def _write(self) -> None:
        while True:
            # Jitter: a fleet that was cut off together must not report together for ever.
            with anyio.move_on_after(self._beat * (0.8 + 0.4 * self._link.ports.rand.uniform())):
                await self._wake.wait()
            self._wake = anyio.Event()
            while self._replies:
                await self._send(self._replies.popleft())
            await self._send(self._reporter.report())
            if self._link.leaving.is_set():
                self._finish("this agent stops", "shutdown")
                return
            if self._clock.monotonic() - self._last_ack > self._patience:
                self._finish(f"no acknowledgement for {self._patience:g} s", "no_acknowledgement")
                return

    async def _follow_changes(self) -> None:
        while True:
            await self._link.keeper.changed.wait()
            self._wake.set()

    async def _wait_for_leave(self) -> None:
        await self._link.leaving.wait()
        self._wake.set()

    async def _send(self, message: Value) -> None:
        await self._stream.send(encode(message))

    # --- ending -------------------------------------------------------------------------------------

    async def _until_the_end(self, task: Callable[[], Awaitable[None]]) -> None:
        try:
            await task()
        except WireError as error:
            self._finish(str(error), "protocol")
        except StreamError as error:
            self._finish(str(error))
        except OSError as error:
            self._finish(f"the state cannot be written: {error}")

    def _finish(self, reason: str, bye: ByeReason | None = None) -> None:
        self._reason, self._bye = reason, bye
        self._group.cancel_scope.cancel()

    async def _say_bye(self, reason: ByeReason) -> None:
        try:
            await self._send(Bye(reason=reason, message=self._reason))
        except StreamError:
            return  # it is gone already
