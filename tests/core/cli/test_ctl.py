"""`llmgw ctl` against an admin API that answers what the test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from llmgw_core.cli.main import llmgw
from llmgw_core.cli.up.first_run import prepare, read_secret
from llmgw_core.cli.up.layout import StateLayout
from llmgw_core.cli.up.plan import UpPlan, write_configs

FAILURE = {"class": "crash", "detail": "went away", "tail": "last line", "hint": "look there"}
REPLICA = {
    "id": "r-abc",
    "model": "tiny",
    "state": "Failed",
    "for_seconds": 61.0,
    "nodes": ["n"],
    "failure": FAILURE,
}
NODE = {
    "name": "n",
    "state": "ready",
    "engines": [],
    "gpus": [],
    "cpus": 2,
    "memory_mib": 2048,
    "problems": [],
}
ENGINES = [
    {"name": "llamacpp", "version": "11549", "binary": ["/x"], "problems": []},
    {"name": "sglang", "version": None, "binary": ["/opt/sglang"], "problems": ["/opt/sglang does not run"]},
    {"name": "vllm", "version": None, "binary": [], "problems": ["vllm is not on PATH"]},
]
MODEL = {
    "name": "tiny",
    "state": "failed",
    "wanted": 1,
    "ready": 0,
    "reason": "crash",
    "next": "retry in 2 s",
}
KEY = {"id": "key-1", "owner": "bob", "tenant": "", "models": None, "expires_in": 3600.0, "revoked": False}


class AdminApi(ThreadingHTTPServer):
    """Answers by path; remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str, str, Any, str]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: AdminApi

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"null")
        self.server.asked.append((self.command, self.path, body, self.headers["Authorization"]))
        status, answer = self.server.answers[self.path]
        text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def do_DELETE(self) -> None:
        self.answer()

    def log_message(self, *args: object) -> None:
        return


@pytest.fixture
def api() -> Iterator[AdminApi]:
    with AdminApi() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ctl(api: AdminApi, *arguments: str) -> Result:
    return CliRunner().invoke(llmgw, ["ctl", "--server", api.address, "--token", "t0p", *arguments])


@pytest.mark.parametrize(
    ("name", "row", "cells"),
    (
        ("nodes", NODE, ["n", "ready", "–", "2", "2 GiB", "0", "–", "–"]),
        (
            "nodes",
            {**NODE, "engines": ENGINES},
            ["n", "ready", "–", "2", "2 GiB", "0", "llamacpp 11549", "sglang: /opt/sglang does not run"],
        ),
        ("models", MODEL, ["tiny", "failed", "0/1", "crash; retry in 2 s"]),
        ("replicas", REPLICA, ["r-abc", "tiny", "Failed", "1m01s", "n", "crash: went away"]),
        (
            "events",
            {"age": 5.0, "kind": "leading", "subject": "x", "message": "epoch 1"},
            ["5.0 s ago", "leading", "x", "epoch 1"],
        ),
        ("usage", {"key": "key-1", "prompt_tokens": 3}, ["key-1", "3"]),
    ),
)
def test_a_list_is_a_table_for_people_and_the_answer_itself_for_programs(
    api: AdminApi, name: str, row: dict[str, Any], cells: list[str]
) -> None:
    api.answers[f"/admin/v1/{name}"] = (200, {name: [row]})
    head, told = ctl(api, name).stdout.splitlines()
    assert head == head.upper()
    assert [part.strip() for part in told.split("  ") if part.strip()] == cells
    assert json.loads(ctl(api, name, "--json").stdout) == {name: [row]}
    assert api.asked[0] == ("GET", f"/admin/v1/{name}", None, "Bearer t0p")


@pytest.mark.parametrize("name", ("nodes", "models", "replicas", "events", "usage"))
def test_an_empty_list_is_a_sentence(api: AdminApi, name: str) -> None:
    api.answers[f"/admin/v1/{name}"] = (200, {name: []})
    assert len(ctl(api, name).stdout.splitlines()) == 1


def test_explain_says_why_what_failed_and_what_fits_where(api: AdminApi) -> None:
    rejection = {"node": "n", "constraint": "cpus", "needed": "4", "had": "2", "detail": ""}
    profile = {"name": "p", "engine": "e", "needs": "1 node × 4 CPUs", "outcome": "does not fit"}
    placement = {"profiles": [{**profile, "rejections": [rejection]}], "nodes": [], "notes": []}
    api.answers["/admin/v1/explain/a/b"] = (200, {**MODEL, "failure": FAILURE, "placement": placement})
    told = ctl(api, "explain", "a/b").stdout
    assert told.splitlines() == [
        "tiny is failed: wants 1, has 0; crash; retry in 2 s",
        "",
        "last failure: crash: went away",
        "  | last line",
        "  → look there",
        "",
        "1  p · e · 1 node × 4 CPUs · does not fit",
        "   n   cpus   needs 4, has 2",
    ]


def test_logs_are_the_text_itself(api: AdminApi) -> None:
    api.answers["/admin/v1/replicas/r-a/logs?lines=5"] = (200, {"replica": "r-abc", "text": "one\ntwo\n"})
    assert ctl(api, "logs", "r-a", "--lines", "5").stdout == "one\ntwo\n"


def test_a_key_is_made_shown_once_listed_without_it_and_ended(api: AdminApi) -> None:
    api.answers["/admin/v1/keys"] = (200, {**KEY, "key": "llmgw-new", "keys": [KEY]})
    made = ctl(api, "keys", "create", "bob", "--model", "a", "--model", "b", "--expires-in", "1h")
    assert made.stdout.splitlines()[0] == "llmgw-new"
    assert api.asked[0][2] == {"owner": "bob", "tenant": "", "models": ["a", "b"], "expires_in": 3600.0}
    listed = ctl(api, "keys", "list").stdout
    assert "llmgw-new" not in listed
    assert [part.strip() for part in listed.splitlines()[1].split("  ") if part.strip()] == [
        "key-1",
        "bob",
        "–",
        "all",
        "1h",
        "live",
    ]
    api.answers["/admin/v1/keys/key-1"] = (200, {"revoked": "key-1"})
    assert ctl(api, "keys", "revoke", "key-1").stdout == "key-1 is revoked\n"
    assert api.asked[-1][:2] == ("DELETE", "/admin/v1/keys/key-1")


@pytest.mark.parametrize(
    ("left", "revoked", "state"),
    (
        (60.0, False, "live"),
        (None, False, "live"),
        (0.0, False, "expired"),
        (-1.0, False, "expired"),
        (-1.0, True, "revoked"),
    ),
)
def test_a_key_is_live_expired_or_revoked(
    api: AdminApi, left: float | None, revoked: bool, state: str
) -> None:
    row = {**KEY, "expires_in": left, "revoked": revoked}
    api.answers["/admin/v1/keys"] = (200, {"keys": [row]})
    assert ctl(api, "keys", "list").stdout.split()[-1] == state


@pytest.mark.parametrize(
    ("time", "told"),
    (
        ("soon", "write for instance 30s"),
        ("0s", "more than 0 s"),
        ("4000d", "at most ten years"),
    ),
)
def test_a_time_that_is_none_is_wrong_usage(api: AdminApi, time: str, told: str) -> None:
    result = ctl(api, "keys", "create", "bob", "--expires-in", time)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())
    assert api.asked == []


@pytest.mark.parametrize(
    "arguments",
    (
        ("keys", "revoke", ""),
        ("keys", "revoke", "a/b"),
        ("logs", ""),
        ("logs", "r-1/0"),
        ("explain", ""),
        ("keys", "create", " "),
        ("keys", "create", "bob\nalice"),
        ("keys", "create", "bob", "--tenant", "a\x1b[31m"),
    ),
)
def test_a_name_that_can_be_none_is_refused_before_anybody_is_asked(
    api: AdminApi, arguments: tuple[str, ...]
) -> None:
    result = ctl(api, *arguments)
    assert result.exit_code == 2
    assert "Invalid value for" in result.stderr
    assert "\x1b" not in result.stderr
    assert api.asked == []


def test_what_is_odd_about_a_new_key_is_told_beside_it(api: AdminApi) -> None:
    api.answers["/admin/v1/keys"] = (201, {**KEY, "key": "llmgw-new", "warnings": ["no model 'x'"]})
    result = ctl(api, "keys", "create", "bob", "--model", "x", "--json")
    assert json.loads(result.stdout)["key"] == "llmgw-new"
    assert result.stderr == "warning: no model 'x'\n"


def test_reload_tells_the_revision(api: AdminApi) -> None:
    api.answers["/admin/v1/catalog/reload"] = (200, {"catalog_revision": "2-ab"})
    assert ctl(api, "catalog", "reload").stdout == "catalog 2-ab\n"
    assert api.asked[0][0] == "POST"


@pytest.mark.parametrize(
    ("status", "answer", "told"),
    (
        (
            404,
            {"error": {"code": "x", "message": "no such model", "fix": "see models"}},
            "no such model\n  → see models",
        ),
        (401, {"error": {"code": "x", "message": "wrong token"}}, "LLMGW_TOKEN"),
        (500, b"<html>", "HTTP 500, and no word why\n  → check that --server"),
        (401, b"<html>", "LLMGW_TOKEN"),
        (200, b"<html>", "not JSON"),
        (200, {"other": 1}, "an answer without 'models'"),
    ),
)
def test_what_the_control_plane_refuses_is_told_and_exits_1(
    api: AdminApi, status: int, answer: Any, told: str
) -> None:
    api.answers["/admin/v1/models"] = (status, answer)
    result = ctl(api, "models")
    assert result.exit_code == 1
    assert told in result.stderr
    assert result.stdout == ""


def test_a_control_plane_that_is_away_is_told_with_what_to_check(rig: Any) -> None:
    result = CliRunner().invoke(
        llmgw, ["ctl", "--server", f"127.0.0.1:{rig.admin_port}", "--token", "x", "nodes"]
    )
    assert result.exit_code == 1
    assert "does not answer: Connection refused" in result.stderr
    assert "check that it runs" in result.stderr


def test_address_and_token_of_a_local_up_are_found(api: AdminApi, tmp_path: Path) -> None:
    layout = StateLayout(tmp_path)
    prepare(layout)
    write_configs(UpPlan(layout, layout.catalog, "", api.address, "127.0.0.1:1"))
    api.answers["/admin/v1/models"] = (200, {"models": []})
    result = CliRunner().invoke(llmgw, ["ctl", "--state-dir", str(tmp_path), "models"])
    assert result.stdout == "the catalog has no model\n"
    assert api.asked[0][3] == f"Bearer {read_secret(layout, 'admin')}"


def test_without_a_local_up_and_without_an_address_it_says_what_to_give(tmp_path: Path) -> None:
    result = CliRunner().invoke(llmgw, ["ctl", "--state-dir", str(tmp_path), "models"])
    assert result.exit_code == 2
    assert "give --server and --token, or --state-dir" in result.stderr


def test_a_token_is_never_sent_to_something_that_is_no_http_address() -> None:
    result = CliRunner().invoke(llmgw, ["ctl", "--server", "file:///etc/passwd", "--token", "x", "models"])
    assert result.exit_code == 2
    assert "expected an http:// or https:// URL" in result.stderr
