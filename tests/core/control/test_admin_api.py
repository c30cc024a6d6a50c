"""The admin API over a real store: who may ask, what it answers, what bad input gets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx2
import pytest
from llmgw_core.catalog.dry_run import commands_by_hook
from llmgw_core.control.admin import build
from llmgw_core.control.app import ControlPlane
from llmgw_core.control.catalogs import CatalogFile
from llmgw_core.control.gateways import GatewayHub
from llmgw_core.plugins import PluginHost
from llmgw_core.simulate import engine
from llmgw_core.spec import ApiKey, StoreUnavailable
from llmgw_core.store.database import SqlStore, open_store
from llmgw_core.system import SystemClock, SystemRand
from llmgw_core.timers import FAST

pytestmark = pytest.mark.anyio
CATALOG = """\
version: 1
models:
  small: {source: /models/small, profiles: [{name: cpu, engine: simulated, cpus: 1}]}
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    path = tmp_path / "catalog.yaml"
    path.write_text(CATALOG)
    return path


@pytest.fixture
async def admin(tmp_path: Path, catalog: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with the admin token, in process."""
    clock, rand, plugins = SystemClock(), SystemRand(), PluginHost.of(engine)
    async with (
        open_store(tmp_path / "llmgw.sqlite3", clock, rand) as store,
        anyio.create_task_group() as tasks,
    ):
        control = ControlPlane(
            store,
            await store.facts(),
            engines=plugins.engines,
            plugins=None,
            commands=commands_by_hook(plugins.call_one),
            catalog=CatalogFile(catalog),
            clock=clock,
            rand=rand,
            timers=FAST,
        )
        await tasks.start(control.run)
        app = build(control, store, {"admin": "admin-token", "agent": "a", "gateway": "g"})
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app),
            base_url="http://control",
            headers={"Authorization": "Bearer admin-token"},
        ) as client:
            with anyio.fail_after(60):
                while (await client.get("/readyz")).status_code != 200:
                    await anyio.sleep(0.01)
            yield client
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("header", ("", "Bearer wrong", "Basic admin-token", "Bearer a", "Bearer"))
async def test_nobody_without_the_admin_token_is_answered(admin: httpx2.AsyncClient, header: str) -> None:
    for path in ("status", "nodes", "models", "replicas", "events", "keys", "usage", "explain/small"):
        answer = await admin.get(f"/admin/v1/{path}", headers={"Authorization": header})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
    assert (await admin.get("/healthz", headers={"Authorization": header})).status_code == 200


async def test_status_tells_of_everything(admin: httpx2.AsyncClient) -> None:
    status = (await admin.get("/admin/v1/status")).json()
    assert status["ready"]
    assert [(row["name"], row["state"]) for row in status["models"]] == [("small", "unschedulable")]
    assert "no node has registered" in status["models"][0]["reason"]
    assert status["models"][0]["engines"] == ["simulated"]


async def test_explain_says_why_and_knows_no_stranger(admin: httpx2.AsyncClient) -> None:
    explanation = (await admin.get("/admin/v1/explain/small")).json()
    assert explanation["placement"]["fits"] is False
    assert (await admin.get("/admin/v1/explain/nope")).status_code == 404


async def test_a_key_is_shown_once_listed_without_its_secret_and_revoked(admin: httpx2.AsyncClient) -> None:
    made = (await admin.post("/admin/v1/keys", json={"owner": "ann", "models": ["small"]})).json()
    assert made["key"].startswith("llmgw-")
    listed = await admin.get("/admin/v1/keys")
    assert made["key"] not in listed.text
    assert "hash" not in listed.text
    (row,) = listed.json()["keys"]
    assert (row["owner"], row["models"], row["revoked"]) == ("ann", ["small"], False)
    assert (await admin.delete(f"/admin/v1/keys/{made['id']}")).json() == {"revoked": made["id"]}
    assert (await admin.get("/admin/v1/keys")).json()["keys"][0]["revoked"]
    assert (await admin.delete("/admin/v1/keys/key-unknown")).status_code == 404


@pytest.mark.parametrize(
    "body",
    (
        b"",
        b"{",
        b"[]",
        b'{"owner": ""}',
        b'{"owner": "a", "colour": 1}',
        b"x" * 70_000,
        b'{"owner": "a\\nb"}',
        b'{"owner": "a", "tenant": "\\u001b[31m"}',
        b'{"owner": "a", "expires_in": 0}',
        b'{"owner": "a", "expires_in": 1e9}',
    ),
)
async def test_a_bad_key_request_is_a_400_with_a_sentence(admin: httpx2.AsyncClient, body: bytes) -> None:
    answer = await admin.post("/admin/v1/keys", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


async def test_a_key_for_a_model_that_is_not_there_comes_with_a_warning(admin: httpx2.AsyncClient) -> None:
    made = await admin.post("/admin/v1/keys", json={"owner": "ann", "models": ["small", "smal"]})
    assert made.status_code == 201
    assert made.json()["warnings"] == ["the catalog has no model 'smal' at present"]


async def test_what_to_do_is_told_once(admin: httpx2.AsyncClient) -> None:
    error = (await admin.get("/admin/v1/explain/nope")).json()["error"]
    assert error["message"] == "nope: the catalog has no such model"
    assert error["fix"] == "see `llmgw ctl models`"


async def test_a_broken_catalog_is_a_422_with_its_line_and_changes_nothing(
    admin: httpx2.AsyncClient, catalog: Path
) -> None:
    catalog.write_text("version: 1\nmodels: {small: {source: 1, profiles: []}}\n")
    answer = await admin.post("/admin/v1/catalog/reload")
    assert answer.status_code == 422
    assert f"{catalog}:2:" in answer.json()["error"]["message"]
    assert [row["name"] for row in (await admin.get("/admin/v1/models")).json()["models"]] == ["small"]


@pytest.mark.parametrize("lines", ("0", "-1", "many", "999999"))
async def test_a_bad_number_of_log_lines_is_refused(admin: httpx2.AsyncClient, lines: str) -> None:
    answer = await admin.get("/admin/v1/replicas/r-aaa/logs", params={"lines": lines})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_value")


async def test_logs_of_an_unknown_replica_say_so(admin: httpx2.AsyncClient) -> None:
    answer = await admin.get("/admin/v1/replicas/r-aaa/logs")
    assert answer.status_code == 404
    assert "no replica" in answer.json()["error"]["message"]


async def test_a_revocation_reaches_gateways_though_the_store_fails_right_after_it(
    admin: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (await admin.post("/admin/v1/keys", json={"owner": "ann"})).json()
    read, published, failures = SqlStore.api_keys, list[tuple[str, ...]](), [1, 1]

    async def failing(store: SqlStore) -> tuple[ApiKey, ...]:
        if failures:
            failures.pop()
            raise StoreUnavailable("it does not answer")
        return await read(store)

    def publish(_: GatewayHub, keys: tuple[ApiKey, ...]) -> None:
        published.append(tuple(key.id for key in keys))

    monkeypatch.setattr(SqlStore, "api_keys", failing)
    monkeypatch.setattr(GatewayHub, "publish_keys", publish)
    assert (await admin.delete(f"/admin/v1/keys/{made['id']}")).json() == {"revoked": made["id"]}
    with anyio.fail_after(60):
        while not published:
            await anyio.sleep(0.01)
    assert published == [()]
