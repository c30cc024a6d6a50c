"""The key guard, as vLLM loads it: a class from a directory on the path, around an ASGI application."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from llmgw_vllm.environment import GUARD_CLASS, GUARD_DIRECTORY

pytestmark = pytest.mark.anyio
KEY = b"engine-key"
FILE = Path(GUARD_DIRECTORY) / "llmgw_vllm_guard.py"


Answer = tuple[bool, list[dict[str, Any]]]
Ask = Callable[..., Awaitable[Answer]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Sends one request: whether the application behind the guard was reached, and what the guard sent."""
    monkeypatch.setenv("VLLM_API_KEY", KEY.decode())
    spec = importlib.util.spec_from_file_location("guard_under_test", FILE)
    assert spec is not None
    assert spec.loader is not None
    guard = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(guard)

    async def asked(
        path: str = "/v1/models", *headers: tuple[bytes, bytes], kind: str = "http", method: str = "GET"
    ) -> Answer:
        reached = False
        sent: list[dict[str, Any]] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            nonlocal reached
            reached = True

        async def receive() -> None:
            raise AssertionError("the guard reads nothing of a request")

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope: dict[str, Any] = {"type": kind, "path": path, "method": method, "headers": list(headers)}
        await guard.KeyGuard(app)(scope, receive, send)
        return reached, sent

    return asked


def bearer(key: bytes = KEY, name: bytes = b"authorization") -> tuple[bytes, bytes]:
    return name, b"Bearer " + key


@pytest.mark.parametrize("path", ("/v1/models", "/invocations", "/metrics", "/tokenize", "/"))
async def test_the_key_opens_every_path(ask: Ask, path: str) -> None:
    assert await ask(path, bearer()) == (True, [])
    assert await ask(path, bearer(name=b"Authorization")) == (True, [])


@pytest.mark.parametrize(
    "path",
    (
        "/v1/models", "/invocations", "/metrics", "/docs", "/openapi.json", "/ping", "/version", "/load", "/",
        "", "/health/", "//health", "/Health", "/health/../invocations", "/healthz", "/v1/../health",
        "/health\n",
    ),
)  # fmt: skip
@pytest.mark.parametrize("method", ("GET", "POST", "OPTIONS", "HEAD"))
async def test_without_the_key_no_path_but_health_is_reached(ask: Ask, path: str, method: str) -> None:
    reached, (start, body) = await ask(path, method=method)
    assert not reached
    assert start["status"] == 401
    headers = dict(start["headers"])
    assert headers[b"www-authenticate"] == b"Bearer"
    assert int(headers[b"content-length"]) == len(body["body"])
    assert json.loads(body["body"])["error"]["type"] == "authentication_error"


@pytest.mark.parametrize(
    "headers",
    (
        (bearer(b"engine-ke"),),
        (bearer(b"engine-keyx"),),
        (bearer(b"ENGINE-KEY"),),
        (bearer(b""),),
        ((b"authorization", KEY),),
        ((b"authorization", b"bearer " + KEY),),
        ((b"authorization", b"Basic " + KEY),),
        ((b"authorization", b""),),
        ((b"authorization", b"\xff\xfe"),),
        ((b"x-api-key", KEY),),
        (bearer(), bearer()),
        (bearer(b"wrong"), bearer()),
    ),
)
async def test_anything_but_the_one_key_in_one_header_is_refused(
    ask: Ask, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    reached, sent = await ask("/v1/models", *headers)
    assert (reached, sent[0]["status"]) == (False, 401)


async def test_health_is_open_and_the_application_may_start(ask: Ask) -> None:
    assert await ask("/health") == (True, [])
    assert await ask(kind="lifespan") == (True, [])


async def test_a_websocket_without_the_key_is_closed_before_it_opens(ask: Ask) -> None:
    assert await ask("/v1/realtime", kind="websocket") == (False, [{"type": "websocket.close", "code": 1008}])
    assert await ask("/health", kind="websocket") == (False, [{"type": "websocket.close", "code": 1008}])
    assert await ask("/v1/realtime", bearer(), kind="websocket") == (True, [])


async def test_a_kind_of_connection_that_is_not_known_is_not_passed_on(ask: Ask) -> None:
    reached, _ = await ask("/health", kind="webtransport")
    assert not reached


def load(path: str, **env: str) -> subprocess.CompletedProcess[str]:
    """What `import` does in a bare interpreter that has only the guard's directory on its path."""
    module, name = GUARD_CLASS.rsplit(".", 1)
    code = f"import {module}, sys; print({module}.{name}.__name__, 'pydantic' in sys.modules)"
    given = {"PYTHONPATH": path, **env}
    argv = [sys.executable, "-S", "-c", code]
    return subprocess.run(argv, env=given, capture_output=True, text=True, check=False)


def test_it_loads_with_nothing_else_on_the_path() -> None:
    loaded = load(GUARD_DIRECTORY, VLLM_API_KEY="k")
    assert loaded.stdout == "KeyGuard False\n"


@pytest.mark.parametrize("env", ({}, {"VLLM_API_KEY": ""}))
def test_it_does_not_load_without_a_key(env: dict[str, str]) -> None:
    loaded = load(GUARD_DIRECTORY, **env)
    assert loaded.returncode == 1
    assert "vLLM must not start without it" in loaded.stderr


def test_its_directory_holds_nothing_else_that_could_be_imported() -> None:
    assert [path.name for path in FILE.parent.iterdir() if path.name != "__pycache__"] == [FILE.name]


def test_it_is_written_in_the_python_of_the_oldest_engine() -> None:
    tree = ast.parse(FILE.read_text(), feature_version=(3, 9))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= sys.stdlib_module_names
