"""The gateway's HTTP routes, wired in one place."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmgw_core.config import GatewayLimits
from llmgw_core.gateway.answer import ClientAnswer
from llmgw_core.gateway.auth import authenticate
from llmgw_core.gateway.exchange import Exchange
from llmgw_core.gateway.models import model_list, one_model
from llmgw_core.gateway.openai import ApiError, model_not_found, not_found, retry_after
from llmgw_core.gateway.proxy import Proxy
from llmgw_core.gateway.request import ClientGone, check_headers, parse, read_body
from llmgw_core.gateway.state import GatewayState
from llmgw_core.ports import Clock, Rand

MODEL_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")
"""Paths that go to engines; everything else of an engine is unreachable through the gateway."""
_MODELS = "/v1/models"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Gateway:
    """Everything that the routes work with."""

    state: GatewayState
    proxy: Proxy
    clock: Clock
    rand: Rand
    limits: GatewayLimits


def build_app(gateway: Gateway) -> ASGIApp:
    """The gateway as an ASGI application."""
    state, clock = gateway.state, gateway.clock
    # Each handler takes its own class of error, which the type of the whole mapping cannot say.
    handlers: dict[Any, Any] = {
        HTTPException: _http_error,
        ApiError: _api_error,
        Exception: _defect,
    }
    app = Starlette(
        routes=[
            *(Route(path, ModelRoute(path, gateway), methods=["POST"]) for path in MODEL_PATHS),
            Route(_MODELS, partial(_list_models, state=state, clock=clock)),
            Route(_MODELS + "/{name:path}", partial(_get_model, state=state, clock=clock)),
            Route("/healthz", _healthz),
            Route("/readyz", partial(_readyz, state=state)),
        ],
        exception_handlers=handlers,
    )
    app.router.redirect_slashes = False
    return Guard(app, gateway.rand)


class ModelRoute:
    """`POST` of a path that engines serve. An ASGI application of its own: it must be able to break off."""

    def __init__(self, path: str, gateway: Gateway) -> None:
        self._path = path
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = ClientAnswer(send)
        gateway = self._gateway
        try:
            key = authenticate(scope, gateway.state, gateway.clock.monotonic())
            check_headers(scope, gateway.limits.max_body)
            started = gateway.clock.monotonic()
            request = parse(await read_body(receive, gateway.limits.max_body))
            model = gateway.state.table.resolve(request.model)
            if model is None or not key.may_use(model):
                raise model_not_found(request.model)
        except ApiError as error:
            await answer.error(error)
            return
        except ClientGone:
            return
        answer.add_headers({"x-llmgw-model": model.name})
        exchange = Exchange(
            id=request_id(scope),
            key=key.id,
            tenant=key.tenant,
            model_asked=request.model,
            model=model,
            path=self._path,
            streamed=request.stream,
            started=started,
            clock=gateway.clock.monotonic,
        )
        await gateway.proxy.carry(request, exchange, receive, answer)


class Guard:
    """Around everything: a request id of our own, no second spelling of a path, no bare 500."""

    def __init__(self, app: ASGIApp, rand: Rand) -> None:
        self._app = app
        self._rand = rand

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A client's x-request-id is not taken over: it could be another tenant's, or break a log line.
        identity = f"req-{self._rand.token()}"
        scope["state"] = {"request_id": identity}

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"x-request-id", identity.encode())]}
            await send(message)

        if _respelled(scope):
            await ClientAnswer(send_with_id).error(not_found())
            return
        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            # Its client has an answer already (see `_defect`), or a body that breaks off.
            _log.exception("request failed by a defect of the gateway", extra={"request": identity})


def request_id(scope: Scope) -> str:
    """The id that this gateway gave to a request."""
    return str(scope["state"]["request_id"])


def _respelled(scope: Scope) -> bool:
    """Whether a path was written with escapes, which would be undone into another route's path.

    Names of models are the exception: clients escape the slash in them.
    """
    raw: bytes = scope.get("raw_path") or b""
    return b"%" in raw and not raw.startswith(_MODELS.encode() + b"/")


async def _list_models(request: Request, *, state: GatewayState, clock: Clock) -> Response:
    key = authenticate(request.scope, state, clock.monotonic())
    return _json(model_list(state.table, key))


async def _get_model(request: Request, *, state: GatewayState, clock: Clock) -> Response:
    key = authenticate(request.scope, state, clock.monotonic())
    name = request.path_params["name"]
    model = state.table.resolve(name)
    if model is None or not key.may_use(model):
        raise model_not_found(name)
    return _json(one_model(state.table, model))


async def _healthz(_: Request) -> Response:
    return _json({"status": "ok"})


async def _readyz(_: Request, *, state: GatewayState) -> Response:
    reason = state.not_ready()
    if reason is None:
        return _json({"ready": True})
    return _json({"ready": False, "reason": reason}, status=503, headers=retry_after(1))


async def _api_error(_: Request, error: ApiError) -> Response:
    return Response(error.body(), error.status, error.headers, media_type="application/json")


async def _http_error(request: Request, error: HTTPException) -> Response:
    if error.status_code != 405:
        return await _api_error(request, not_found())
    allow = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
    message = f"This path takes {allow}."
    return await _api_error(request, ApiError(405, "method_not_allowed", message, headers={"allow": allow}))


async def _defect(request: Request, _: Exception) -> Response:
    message = f"The gateway failed; please report it with the request id {request_id(request.scope)}."
    return await _api_error(request, ApiError(500, "internal_error", message))


def _json(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, dict(headers or {}), media_type="application/json")
