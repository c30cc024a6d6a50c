"""A request for a model: choose an endpoint, ask its engine, pass the answer on, account for it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from starlette.types import Receive

from llmgw_core.gateway.accounting import Journal
from llmgw_core.gateway.answer import ClientAnswer
from llmgw_core.gateway.exchange import Exchange
from llmgw_core.gateway.openai import ApiError, quoted, retry_after
from llmgw_core.gateway.relay import UpstreamTimeout, check_status, relay, time_limit
from llmgw_core.gateway.request import ModelRequest
from llmgw_core.gateway.sse import BrokenStream
from llmgw_core.gateway.state import GatewayState
from llmgw_core.gateway.upstream import Upstream, UpstreamFailed, UpstreamReply, UpstreamRequest
from llmgw_core.spec import Endpoint, ModelEntry
from llmgw_core.traffic.admission import RETRY_AFTER, with_room
from llmgw_core.traffic.routing import choose

MAX_ATTEMPTS = 2
"""Replicas that one request is sent to: more would turn one broken model into a storm."""
_log = logging.getLogger(__name__)


@dataclass
class Proxy:
    """Carries admitted requests to engines."""

    state: GatewayState
    upstream: Upstream
    journal: Journal

    async def carry(
        self, request: ModelRequest, exchange: Exchange, receive: Receive, answer: ClientAnswer
    ) -> None:
        """Answer one request. Its usage row is written on every way out, cancellation included.

        A client that goes away, or a gateway whose time to drain is over, cancels what is under way at
        once, whatever phase it is in; the engine's connection is cut then.
        """
        try:
            async with anyio.create_task_group() as group:
                ending = _Ending(anyio.CancelScope())
                group.start_soon(_watch_client, receive, ending)
                with self.state.cuttable(ending.by_gateway), ending.scope:
                    await self._answered(request, exchange, answer)
                await _last_words(ending, exchange, answer)
                group.cancel_scope.cancel()
        finally:
            self.journal.append(exchange.row())

    async def _answered(self, request: ModelRequest, exchange: Exchange, answer: ClientAnswer) -> None:
        try:
            with time_limit(exchange.model.timeouts.total, "in all"):
                await self._attempts(request, exchange, answer)
        except ApiError as error:
            exchange.ended(
                error.status, "refused" if exchange.replica is None or error.status < 500 else "failed"
            )
            await answer.error(error)
        except (UpstreamFailed, BrokenStream, UpstreamTimeout) as error:
            _log.warning("request failed", extra=_facts(exchange, reason=str(error)))
            await _tell(error, exchange, answer)

    async def _attempts(self, request: ModelRequest, exchange: Exchange, answer: ClientAnswer) -> None:
        tried: set[str] = set()
        while True:
            endpoint = self._admitted(exchange, tried)
            tried.add(endpoint.replica)
            exchange.replica = endpoint.replica
            answer.add_headers({"x-llmgw-replica": endpoint.replica})
            try:
                await self._attempt(endpoint, request, exchange, answer)
            except (UpstreamFailed, BrokenStream) as error:
                if answer.begun or len(tried) == MAX_ATTEMPTS or self._next(exchange, tried) is None:
                    raise
                _log.info("trying another replica", extra=_facts(exchange, reason=str(error)))
            else:
                return

    def _admitted(self, exchange: Exchange, tried: set[str]) -> Endpoint:
        """The endpoint to go to. Raises ApiError when there is none, or none with room."""
        endpoint = self._next(exchange, tried)
        if endpoint is not None:
            return endpoint
        model = exchange.model
        if self._reachable(exchange):
            message = f"Every replica of {quoted(model.name)} is busy; try again."
            raise ApiError(503, "overloaded", message, headers=retry_after(RETRY_AFTER))
        table = self.state.table
        if table.of_model(model.name) and not table.candidates(model.name, exchange.path):
            raise ApiError(404, "not_found", f"{quoted(model.name)} does not serve {exchange.path}.")
        raise _not_ready(model)

    def _next(self, exchange: Exchange, tried: set[str]) -> Endpoint | None:
        in_flight = self.state.in_flight
        roomy = with_room(self._reachable(exchange), in_flight, self.state.table.gateways_live)
        return choose(roomy, in_flight, tried)

    def _reachable(self, exchange: Exchange) -> list[Endpoint]:
        """Endpoints that serve the path and whose engine's key can be made."""
        candidates = self.state.table.candidates(exchange.model.name, exchange.path)
        return [each for each in candidates if self.state.keyring.has_engine_key(each.key_version)]

    async def _attempt(
        self, endpoint: Endpoint, request: ModelRequest, exchange: Exchange, answer: ClientAnswer
    ) -> None:
        with self.state.hold(endpoint.replica, exchange.id):
            async with self._reply(endpoint, request, exchange) as reply:
                check_status(reply.status)
                await relay(reply, answer, exchange)

    @asynccontextmanager
    async def _reply(
        self, endpoint: Endpoint, request: ModelRequest, exchange: Exchange
    ) -> AsyncIterator[UpstreamReply]:
        message = self._message(endpoint, request, exchange)
        limits = exchange.model.timeouts
        # An answer in one piece begins when it is complete: only the total limits it.
        seconds = limits.first_byte if request.stream else limits.total
        with time_limit(seconds, "to begin its answer"):
            reply = await self._send(message)
        try:
            yield reply
        finally:
            await reply.close()

    async def _send(self, message: UpstreamRequest) -> UpstreamReply:
        try:
            return await self.upstream.send(message)
        except UpstreamFailed as error:
            if not error.stale:
                raise
            # Engines close idle connections, sometimes in the moment of use. One that died refuses the next.
            return await self.upstream.send(message)

    def _message(self, endpoint: Endpoint, request: ModelRequest, exchange: Exchange) -> UpstreamRequest:
        """The request for an engine: nothing of the client's headers goes along, its key above all."""
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream" if request.stream else "application/json",
            "user-agent": "llmgw-gateway",
            "x-request-id": exchange.id,
        }
        key = self.state.keyring.engine_key(endpoint.key_version, endpoint.replica)
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        return UpstreamRequest(
            url=endpoint.url.rstrip("/") + exchange.path,
            headers=headers,
            body=request.body_for(exchange.model.name),
        )


@dataclass
class _Ending:
    """Ends an exchange from outside, and remembers who did."""

    scope: anyio.CancelScope
    client_gone: bool = field(default=False)

    def by_client(self) -> None:
        self.client_gone = True
        self.scope.cancel()

    def by_gateway(self) -> None:
        self.scope.cancel()


async def _watch_client(receive: Receive, ending: _Ending) -> None:
    """The body has been read: the next message can only be that the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    ending.by_client()


async def _last_words(ending: _Ending, exchange: Exchange, answer: ClientAnswer) -> None:
    """What the client still gets when this gateway ended its exchange."""
    if not ending.scope.cancelled_caught or ending.client_gone:
        return
    stopping = ApiError(
        503, "gateway_stopping", "This gateway is stopping; try again.", headers=retry_after(1)
    )
    exchange.ended(stopping.status, "partial" if answer.begun else "failed")
    if answer.begun:
        await answer.break_off(stopping.code, stopping.message)
    else:
        await answer.error(stopping)


async def _tell(
    error: UpstreamFailed | BrokenStream | UpstreamTimeout, exchange: Exchange, answer: ClientAnswer
) -> None:
    """Tell the client of an engine's failure, as far as it can still be told."""
    late = isinstance(error, UpstreamTimeout)
    if answer.begun:
        exchange.ended(200, "partial")
        await answer.break_off(
            "upstream_timeout" if late else "upstream_disconnected",
            "The engine stopped answering." if late else "The engine ended before its answer was complete.",
        )
        return
    if late:
        failure = ApiError(504, "upstream_timeout", "The engine did not answer in time.")
    else:
        failure = ApiError(502, "upstream_unavailable", "The engine could not be reached or broke off.")
    exchange.ended(failure.status, "failed")
    await answer.error(failure)


def _not_ready(model: ModelEntry) -> ApiError:
    how = f": {model.state}" if model.state else ""
    message = f"No replica of {quoted(model.name)} is ready{how}."
    return ApiError(503, "model_not_ready", message, headers=retry_after(model.retry_after))


def _facts(exchange: Exchange, *, reason: str) -> dict[str, str | None]:
    return {
        "request": exchange.id,
        "model": exchange.model.name,
        "replica": exchange.replica,
        "reason": reason,
    }
