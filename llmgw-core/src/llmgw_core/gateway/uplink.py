"""The stream to one control plane: tables and keys come down, load and usage go up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from llmgw_core.gateway.accounting import Journal
from llmgw_core.gateway.state import GatewayState
from llmgw_core.ports import Clock, Net, Rand, Stream
from llmgw_core.spec import (
    Bye,
    GatewayHello,
    GatewayLoad,
    Keys,
    Refused,
    Secrets,
    StreamEnded,
    StreamError,
    StreamRefused,
    Table,
    Unknown,
    Usage,
    UsageStored,
    Welcome,
    WireError,
    decode_gateway,
    encode,
)

PATH = "/internal/v1/gateway"
LOAD_EVERY = 1.0
"""Seconds between loads; also the heartbeat of the stream."""
_SETTLE = 0.05
"""Seconds that changes are collected for before a load goes out: one for many requests, not one for each."""
ANSWER_WITHIN = 10.0
"""Seconds after which a batch that nobody has confirmed is sent again: the store may have been away."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0
_WELCOME_WITHIN = 10.0
_log = logging.getLogger(__name__)


@dataclass
class Uplink:
    """Keeps a stream to one control plane for as long as it runs, connecting again whenever it ends.

    What was learned stays in force while the stream is gone: serving needs no control plane.
    """

    url: str
    instance: str
    version: str
    token: Callable[[], str]
    """Reads the credential; asked again for each connection, so that it can be changed."""
    net: Net
    state: GatewayState
    journal: Journal
    clock: Clock
    rand: Rand
    _lent: str | None = field(default=None, init=False)
    _lent_at: float = field(default=0.0, init=False)

    async def run(self) -> None:
        """Connect, again and again, until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            begun = self.clock.monotonic()
            try:
                await self._session()
            except (StreamError, OSError) as error:
                _log.warning(
                    "no stream to the control plane", extra={"control_plane": self.url, "reason": str(error)}
                )
            # A stream that held for a while was a good one: the next try is an early one again.
            good = self.clock.monotonic() - begun > _LONGEST_PAUSE
            pause = _FIRST_PAUSE if good else min(_LONGEST_PAUSE, pause * 2)
            # All gateways lose a restarting control plane in the same moment; they must not return in one.
            await anyio.sleep(pause * (0.5 + self.rand.uniform() / 2))

    async def _session(self) -> None:
        async with self.net.connect(_stream_url(self.url), self.token()) as stream:
            await self._greet(stream)
            try:
                await self._talk(stream)
            finally:
                self._return_batch()

    async def _greet(self, stream: Stream) -> None:
        table = self.state.table
        hello = GatewayHello(
            cluster=self.state.cluster,
            instance=self.instance,
            version=self.version,
            heard=table.epoch,
            table_version=table.version,
        )
        await stream.send(encode(hello))
        try:
            with anyio.fail_after(_WELCOME_WITHIN):
                answer = decode_gateway(await stream.receive())
        except TimeoutError:
            raise StreamEnded(f"no welcome within {_WELCOME_WITHIN:g} s") from None
        match answer:
            case Welcome():
                self._check_cluster(answer.cluster)
            case Refused():
                raise StreamRefused(answer.code, answer.message, fix=answer.fix or None)
            case _:
                raise WireError(f"a {answer.type} came where a welcome was due")

    def _check_cluster(self, cluster: str) -> None:
        if self.state.cluster not in (None, cluster):
            raise StreamRefused(
                "wrong_cluster",
                "this control plane belongs to another cluster",
                fix="check control_planes; restart the gateway if it was moved on purpose",
            )
        self.state.cluster = cluster
        _log.info("connected", extra={"control_plane": self.url})

    async def _talk(self, stream: Stream) -> None:
        """Receive and send until one of them fails; raises what ended it, not a group around it."""
        ended: StreamError | None = None

        async def until_ended(work: Callable[[Stream], object]) -> None:
            nonlocal ended
            try:
                await work(stream)  # type: ignore[misc]
            except StreamError as error:
                ended = ended or error
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(until_ended, self._receive)
            group.start_soon(until_ended, self._report)
        if ended is not None:
            raise ended

    async def _receive(self, stream: Stream) -> None:
        while True:
            match decode_gateway(await stream.receive()):
                case Table() as table:
                    self.state.take_table(table)
                case Keys() as keys:
                    self.state.take_keys(keys, self.clock.monotonic())
                case Secrets() as secrets:
                    self._take_secrets(secrets)
                case UsageStored(batch=batch):
                    self.journal.stored(batch)
                    self._lent = None if self._lent == batch else self._lent
                    self.state.note_change()
                case Refused(code=code, message=message, fix=fix):
                    raise StreamRefused(code, message, fix=fix or None)
                case Bye(reason=reason, message=message):
                    raise StreamEnded(message or reason)
                case Unknown(type=kind):
                    _log.debug("message not understood", extra={"type": kind})
                case other:
                    raise WireError(f"a {other.type} does not belong here")

    def _take_secrets(self, secrets: Secrets) -> None:
        try:
            self.state.take_secrets(secrets)
        except ValueError:
            raise WireError("secrets are not hexadecimal") from None

    async def _report(self, stream: Stream) -> None:
        """The only sender of a stream."""
        while True:
            reported = self.state.changes
            await stream.send(encode(self._load()))
            batch = self._next_batch()
            if batch is not None:
                await stream.send(encode(batch))
            await self.state.changed(reported, LOAD_EVERY)
            await anyio.sleep(_SETTLE)

    def _load(self) -> GatewayLoad:
        table = self.state.table
        return GatewayLoad(
            heard=table.epoch,
            table_version=table.version,
            in_flight={replica: len(requests) for replica, requests in self.state.in_flight.items()},
        )

    def _next_batch(self) -> Usage | None:
        """One batch at a time on a stream: the next one leaves when this one is stored."""
        now = self.clock.monotonic()
        if self._lent is not None:
            if now - self._lent_at < ANSWER_WITHIN:
                return None
            self._return_batch()
        batch = self.journal.lend()
        if batch is not None:
            self._lent, self._lent_at = batch.batch, now
        return batch

    def _return_batch(self) -> None:
        if self._lent is not None:
            self.journal.give_back(self._lent)
            self._lent = None


def _stream_url(url: str) -> str:
    """`http://h:p` → the WebSocket address of the gateway stream there."""
    scheme, _, rest = url.rstrip("/").partition("://")
    return f"{'wss' if scheme == 'https' else 'ws'}://{rest}{PATH}"
