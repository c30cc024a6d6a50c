"""uvicorn's HTTP protocol with limits: what a connection may send, and how long it may take, before auth.

uvicorn's own has none for heads. Its parser keeps an unfinished field and copies it with every packet, so
that one connection with an endless header would take the whole event loop.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from llmgw_core.http_limits import HttpLimits
from llmgw_core.http_refusal import (
    Refusal,
    body_too_slow,
    head_too_slow,
    headers_too_large,
    invalid_framing,
    target_too_long,
    upgrade_not_supported,
)

PIECE = 8 * 1024
"""Bytes that the parser gets at once, and so by how much an unfinished field may pass its limit."""
_log = logging.getLogger(__name__)


class _Part(Enum):
    """What the parser is in the middle of."""

    NOTHING = "nothing"
    HEAD = "head"
    BODY = "body"


class _Refused(Exception):
    """Raised out of the parser's callbacks, which is how they stop it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


class LimitedHttp(HttpToolsProtocol):
    """One connection. What is over a limit gets an error in JSON, after the answers that are still due.

    There is at most one timer at a time: for the head or the body that is being received. None runs while an
    earlier request of the connection is being answered, because then it is our turn.
    """

    limits: ClassVar[HttpLimits] = HttpLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._part = _Part.NOTHING
        self._requests = 0
        self._target_size = self._fields = self._field_block = 0
        self._unseen = 0
        """Bytes since the parser last told of something: of a field that has not ended yet, mostly."""
        self._body_size = 0
        """Of the body in the current window."""
        self._answering: RequestResponseCycle | None = None
        """The request that the application has now or had last; `cycle` is the last that was received."""
        self._receiving: RequestResponseCycle | None = None
        """The request whose body is being received."""
        self._refusal: Refusal | None = None
        self._thrown_away = 0
        self._timed: tuple[int, _Part] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # What the transport calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count a connection that never says anything as an idle one, too."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being answered, also when others wait behind it."""
        self._stop_timer()
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Feed the parser in pieces, so that an overlong head ends long before a large packet does."""
        if self._refusal is not None:
            self._throw_away(len(data))
            return
        view = memoryview(data)
        try:
            for start in range(0, len(data), PIECE):
                self._feed(view[start : start + PIECE])
        except httptools.HttpParserUpgrade:
            # Any other upgrade was refused in `on_headers_complete`.
            self.handle_websocket_upgrade()
            return
        except _Refused as refused:
            self._refuse(refused.refusal)
            return
        except httptools.HttpParserError as error:
            cause = error.__context__  # what a callback raised
            self._refuse(cause.refusal if isinstance(cause, _Refused) else invalid_framing())
            return
        self._watch()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over; from here on it has the limits of streams."""
        self._stop_timer()
        self._unset_keepalive_if_required()
        super().handle_websocket_upgrade()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin a request's head; every count starts anew."""
        super().on_message_begin()
        self._part = _Part.HEAD
        self._requests += 1
        self._target_size = self._fields = self._field_block = self._unseen = 0

    def on_url(self, url: bytes) -> None:
        """Take more of the target."""
        self._unseen = 0
        self._target_size += len(url)
        if self._target_size > self.limits.target:
            raise _Refused(target_too_long(self.limits))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head. One behind a body is dropped: by then its request is being answered."""
        self._unseen = 0
        self._fields += 1
        self._field_block += len(name) + len(value) + len(b": \r\n")
        if self._fields > self.limits.fields or self._field_block > self.limits.field_block:
            raise _Refused(headers_too_large(self.limits))
        if self._part is _Part.HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Hand the request to the application, or put it in line."""
        if self.parser.should_upgrade() and not self._should_upgrade():
            raise _Refused(upgrade_not_supported())
        before = self.cycle
        super().on_headers_complete()
        self._receiving = self.cycle if self.cycle is not before else None
        if self._receiving is not None and self._all_answered():
            self._answering = self._receiving
        self._part = _Part.BODY
        self._fields = self._field_block = self._unseen = self._body_size = 0

    def on_body(self, body: bytes) -> None:
        """Take more of a body; the application limits its size."""
        self._unseen = 0
        self._body_size += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        super().on_message_complete()
        self._part = _Part.NOTHING
        self._receiving = None
        self._unseen = 0

    # What the application's answer calls.

    def on_response_complete(self) -> None:
        """Turn to the next request in line, or to the refusal of the one behind them."""
        if self.pipeline:
            self._answering = self.pipeline[-1][0]
        super().on_response_complete()
        if self._refusal is not None and self._all_answered():
            self._send_refusal(self._refusal)
        elif not self.transport.is_closing():
            self._watch()

    # Ours.

    def _feed(self, piece: memoryview) -> None:
        self._unseen += len(piece)
        self.parser.feed_data(piece)
        if self._field_block + self._unseen > self.limits.field_block:
            raise _Refused(headers_too_large(self.limits))

    def _all_answered(self) -> bool:
        return self._answering is None or self._answering.response_complete

    def _watch(self) -> None:
        """Set the timer for what is awaited of the client now; leave it if it is set for that already."""
        awaited = self._awaited()
        if awaited is not None:
            # uvicorn sets its own after an answer, also in the middle of the next request.
            self._unset_keepalive_if_required()
        elif self._all_answered() and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        if awaited == self._timed:
            return
        self._stop_timer()
        self._timed = awaited
        if awaited is not None and self._part is _Part.HEAD:
            self._start_timer(self.limits.head_time, self._head_is_late)
        elif awaited is not None:
            self._begin_window()

    def _awaited(self) -> tuple[int, _Part] | None:
        mine = self._part is _Part.BODY and self._receiving is self._answering
        if self._part is _Part.NOTHING or not (mine or self._all_answered()):
            return None
        return self._requests, self._part

    def _start_timer(self, seconds: float, late: Callable[[], None]) -> None:
        self._timer = self.loop.call_later(seconds, late)

    def _stop_timer(self) -> None:
        self._timed = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _head_is_late(self) -> None:
        self._refuse(head_too_slow(self.limits))

    def _begin_window(self) -> None:
        self._body_size = 0
        self._start_timer(self.limits.body_window, self._end_window)

    def _end_window(self) -> None:
        request = self._receiving
        # Then it is the application that takes its time.
        ours = self.flow.read_paused or (request is not None and request.waiting_for_100_continue)
        if ours or self._body_size >= self.limits.body_rate * self.limits.body_window:
            self._begin_window()
        else:
            self._refuse(body_too_slow(self.limits))

    def _refuse(self, refusal: Refusal) -> None:
        """Read no further; the refusal comes after the answers that are due before it."""
        self._refusal = refusal
        self._stop_timer()
        request = self._receiving
        if request is not None and request is self._answering:
            self._refuse_body(request, refusal)
            return
        if request is not None:
            self.pipeline.popleft()
        if self._all_answered():
            self._send_refusal(refusal)

    def _refuse_body(self, request: RequestResponseCycle, refusal: Refusal) -> None:
        if request.response_started:
            # Nothing else can be said any more; an answer that is not complete is seen to break off.
            self.transport.close()
            return
        # Its application reads that the client has gone, and what it answers is dropped.
        request.disconnected = True
        request.message_event.set()
        self._send_refusal(refusal)

    def _send_refusal(self, refusal: Refusal) -> None:
        self._unset_keepalive_if_required()
        if self.transport.is_closing():
            return
        identity = f"req-{secrets.token_hex(16)}"
        client = self.client[0] if self.client else ""
        _log.info("refused", extra={"request": identity, "code": refusal.code, "client": client})
        self.transport.write(refusal.answer(identity, self.server_state.default_headers))
        # Closed at once, with bytes of the client still unread, the kernel would take the answer back.
        self.transport.write_eof()
        self.flow.resume_reading()
        self._start_timer(self.limits.linger_time, self.transport.close)

    def _throw_away(self, size: int) -> None:
        self._thrown_away += size
        if self._thrown_away > self.limits.linger_bytes:
            self.transport.close()


def http_with(limits: HttpLimits) -> type[LimitedHttp]:
    """The protocol with other limits than the usual."""
    return type(LimitedHttp.__name__, (LimitedHttp,), {"limits": limits})
