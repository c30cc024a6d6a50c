"""The admin API and the stream endpoints, as one starlette application on the admin address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from llmgw_core.control.app import ControlPlane
from llmgw_core.control.keys_api import KeysApi
from llmgw_core.control.status import event_rows, model_rows, node_rows, replica_rows
from llmgw_core.credentials import same_token
from llmgw_core.net import StarletteStream
from llmgw_core.placement.explain import explain
from llmgw_core.ports import Stream
from llmgw_core.spec import ConfigError, LlmgwError, NotFound, StoreError
from llmgw_core.store.database import SqlStore

Handler = Callable[[Request], Awaitable[Response]]
MAX_LOG_LINES = 10_000


def build(control: ControlPlane, store: SqlStore, tokens: dict[str, str]) -> Starlette:
    """The application. `tokens` maps `admin`, `agent` and `gateway` to the token each must show."""
    api, keys = AdminApi(control), KeysApi(control, store)
    guarded = {
        ("GET", "/admin/v1/status"): api.status,
        ("GET", "/admin/v1/nodes"): api.nodes,
        ("GET", "/admin/v1/models"): api.models,
        ("GET", "/admin/v1/replicas"): api.replicas,
        ("GET", "/admin/v1/events"): api.events,
        ("GET", "/admin/v1/explain/{model:path}"): api.explain,
        ("GET", "/admin/v1/replicas/{replica}/logs"): api.logs,
        ("POST", "/admin/v1/catalog/reload"): api.reload,
        ("GET", "/admin/v1/keys"): keys.list,
        ("POST", "/admin/v1/keys"): keys.create,
        ("DELETE", "/admin/v1/keys/{key}"): keys.revoke,
        ("GET", "/admin/v1/usage"): keys.usage,
    }
    return Starlette(
        routes=[
            Route("/healthz", api.healthz),
            Route("/readyz", api.readyz),
            *(
                Route(path, _guard(handler, tokens["admin"]), methods=[method])
                for (method, path), handler in guarded.items()
            ),
            WebSocketRoute("/agent/v1/stream", _stream(control.agents.serve, tokens["agent"])),
            WebSocketRoute("/internal/v1/gateway", _stream(control.gateways.serve, tokens["gateway"])),
        ]
    )


def _bearer(header: str | None, expected: str) -> bool:
    scheme, _, token = (header or "").partition(" ")
    return scheme.lower() == "bearer" and same_token(token, expected)


def _guard(handler: Handler, token: str) -> Handler:
    async def guarded(request: Request) -> Response:
        if not _bearer(request.headers.get("authorization"), token):
            return _problem(401, "unauthorized", "the admin token is missing or wrong", "see LLMGW_TOKEN")
        try:
            return await handler(request)
        except LlmgwError as error:
            place = f"{error.where}: " if error.where else ""
            return _problem(_status_of(error), type(error).__name__, place + error.message, error.fix)

    return guarded


def _status_of(error: LlmgwError) -> int:
    match error:
        case StoreError():
            return 503
        case NotFound():
            return 404
        case ConfigError():
            return 422
        case _:
            return 400


def _problem(status: int, code: str, message: str, fix: str | None = None) -> JSONResponse:
    body = {"error": {"code": code, "message": message, "fix": fix}}
    return JSONResponse(body, status_code=status)


def _stream(serve: Callable[[Stream], Awaitable[None]], token: str) -> Callable[[WebSocket], Awaitable[None]]:
    async def endpoint(websocket: WebSocket) -> None:
        if not _bearer(websocket.headers.get("authorization"), token):
            # Before the upgrade, so that nobody without a token gets a socket.
            await websocket.close(4401)
            return
        await websocket.accept()
        stream = StarletteStream(websocket)
        try:
            await serve(stream)
        finally:
            await stream.close()

    return endpoint


class AdminApi:
    """Handlers that only look at the last pass."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    async def healthz(self, request: Request) -> Response:
        """Whether the process answers."""
        return JSONResponse({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Whether it leads and has run a pass."""
        ready = self._control.ready
        return JSONResponse({"ready": ready}, status_code=200 if ready else 503)

    async def status(self, request: Request) -> Response:
        """Everything at once, for `llmgw up`."""
        control, snapshot = self._control, self._control.snapshot
        return JSONResponse(
            {
                "version": control.version,
                "cluster": control.cluster,
                "epoch": control.epoch.number,
                "leader": True,
                "ready": control.ready,
                "gateways": control.gateways.live,
                "catalog_revision": snapshot.catalog.revision,
                "nodes": node_rows(snapshot),
                "models": model_rows(snapshot),
                "replicas": self._replicas(),
            }
        )

    async def nodes(self, request: Request) -> Response:
        """The nodes."""
        return JSONResponse({"nodes": node_rows(self._control.snapshot)})

    async def models(self, request: Request) -> Response:
        """The models of the catalog."""
        return JSONResponse({"models": model_rows(self._control.snapshot)})

    async def replicas(self, request: Request) -> Response:
        """The replicas, also those that ended lately."""
        return JSONResponse({"replicas": self._replicas()})

    async def events(self, request: Request) -> Response:
        """What happened lately."""
        recent = self._control.events.recent()
        return JSONResponse({"events": event_rows(recent, self._control.clock.monotonic())})

    async def explain(self, request: Request) -> Response:
        """Why a model stands as it does."""
        name = request.path_params["model"]
        snapshot = self._control.snapshot
        model = snapshot.catalog.resolve(name)
        if model is None:
            raise NotFound("the catalog has no such model", where=name[:64], fix="see `llmgw ctl models`")
        standing = next(row for row in model_rows(snapshot) if row["name"] == model.name)
        placement = snapshot.placements.get(model.name)
        explanation = explain(model, placement) if placement is not None else None
        replicas = [row for row in self._replicas() if row["model"] == model.name]
        return JSONResponse({**standing, "placement": explanation, "replicas": replicas})

    async def logs(self, request: Request) -> Response:
        """The last lines of a replica's output, as text."""
        lines = request.query_params.get("lines", "200")
        if not lines.isdigit() or not 0 < int(lines) <= MAX_LOG_LINES:
            return _problem(400, "invalid_value", f"lines must be a number from 1 to {MAX_LOG_LINES}")
        row = self._find(request.path_params["replica"])
        text = await self._control.agents.logs(row["nodes"][0], f"{row['id']}/0", int(lines))
        return JSONResponse({"replica": row["id"], "text": text})

    async def reload(self, request: Request) -> Response:
        """Re-read the catalog file; a bad one is answered with 422 and changes nothing."""
        return JSONResponse({"catalog_revision": await self._control.reload_catalog()})

    def _replicas(self) -> list[dict[str, Any]]:
        control = self._control
        return replica_rows(control.snapshot, control.loop.ended(), control.clock.monotonic())

    def _find(self, prefix: str) -> dict[str, Any]:
        found = [row for row in self._replicas() if str(row["id"]).startswith(prefix)]
        if len(found) != 1:
            what = "no replica has" if not found else f"{len(found)} replicas have"
            raise NotFound(f"{what} an id that begins so", where=prefix[:64], fix="see `llmgw ctl replicas`")
        return found[0]
