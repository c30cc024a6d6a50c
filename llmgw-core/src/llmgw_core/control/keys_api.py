"""Admin handlers for API keys and usage, which ask more of the store than its port."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from pydantic import Field, ValidationError, field_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from llmgw_core.control.app import ControlPlane
from llmgw_core.credentials import MAX_KEY_LIFE
from llmgw_core.spec import NotFound, RequestFailed, StoreError
from llmgw_core.spec.value import ConfigValue
from llmgw_core.store.database import SqlStore
from llmgw_core.store.keys import KeyFacts

MAX_BODY = 64 * 1024


class NewKey(ConfigValue):
    """What may be said of a new key. `expires_in` is seconds; `models` None means every model."""

    owner: str = Field(min_length=1, max_length=200)
    tenant: str = Field(default="", max_length=200)
    models: tuple[str, ...] | None = Field(default=None, max_length=1000)
    expires_in: float | None = None

    @field_validator("owner", "tenant")
    @classmethod
    def _printable(cls, name: str) -> str:
        if name and not name.isprintable():
            raise ValueError("must not hold control characters or line breaks")
        return name

    @field_validator("expires_in")
    @classmethod
    def _sensible(cls, seconds: float | None) -> float | None:
        if seconds is not None and not 0 < seconds <= MAX_KEY_LIFE:
            raise ValueError("must be more than 0 s and at most ten years; without it a key holds for ever")
        return seconds


class KeysApi:
    """Handlers for API keys and usage."""

    def __init__(self, control: ControlPlane, store: SqlStore) -> None:
        self._control, self._store = control, store

    async def list(self, request: Request) -> Response:
        """Every key without its secret."""
        rows = [_row(facts, self._control.clock.wall()) for facts in await self._store.list_keys()]
        return JSONResponse({"keys": rows})

    async def create(self, request: Request) -> Response:
        """Make a key; its text is in this answer and nowhere else."""
        wanted = await _body(request)
        expires_at = None if wanted.expires_in is None else self._control.clock.wall() + wanted.expires_in
        entry, key = await self._store.create_key(wanted.owner, wanted.tenant, wanted.models, expires_at)
        await self._publish()
        row: dict[str, Any] = entry.model_dump(mode="json", exclude={"hash"})
        warnings = self._warnings(wanted.models or ())
        return JSONResponse({**row, "key": key, "warnings": warnings}, status_code=201)

    def _warnings(self, models: Iterable[str]) -> builtins.list[str]:
        """A key may be made for a model that comes later; a slip of the pen looks the same."""
        catalog = self._control.snapshot.catalog
        return [
            f"the catalog has no model {name[:200]!r} at present"
            for name in models
            if catalog.resolve(name) is None
        ]

    async def revoke(self, request: Request) -> Response:
        """End a key; every gateway is told at once."""
        key = request.path_params["key"]
        if not await self._store.revoke_key(key):
            raise NotFound("no key has this id", fix="see `llmgw ctl keys list`")
        await self._publish()
        return JSONResponse({"revoked": key})

    async def _publish(self) -> None:
        # The change is made, and a key is shown only here; the control plane goes on trying to tell of it.
        with suppress(StoreError):
            await self._control.publish_keys()

    async def usage(self, request: Request) -> Response:
        """Requests and tokens, by key and model."""
        return JSONResponse({"usage": [asdict(total) for total in await self._store.usage()]})


def _row(facts: KeyFacts, now: float) -> dict[str, Any]:
    row: dict[str, Any] = facts.key.model_dump(mode="json", exclude={"hash"})
    return {**row, "age": round(now - facts.created_at, 1), "revoked": facts.revoked_at is not None}


async def _body(request: Request) -> NewKey:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > MAX_BODY:
            raise RequestFailed(f"the body is over {MAX_BODY} bytes")
    try:
        return NewKey.model_validate(json.loads(raw or b"{}"))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RequestFailed(f"{place}: {first['msg'].removeprefix('Value error, ')}") from None
    except ValueError:
        raise RequestFailed("the body is not JSON") from None
