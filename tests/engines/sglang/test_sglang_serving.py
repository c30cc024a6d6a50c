"""A real SGLang on CPUs: ready, guarded by its key, quiet about it, and ended without losing an answer."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llmgw_sglang import plugin

pytestmark = [pytest.mark.engine, pytest.mark.timeout(3600)]

# What its server offers, and what no server has.
PATHS = (
    "/", "/docs", "/openapi.json", "/ping", "/v1/models", "/v1/completions", "/v1/chat/completions",
    "/v1/embeddings", "/v1/rerank", "/v1/responses", "/v1/messages", "/v1/loads", "/generate", "/invocations",
    "/model_info", "/get_model_info", "/server_info", "/get_server_info", "/flush_cache", "/start_profile",
    "/load_lora_adapter", "/update_weights_from_disk", "/abort_request", "/configure_logging", "/api/chat",
    "/hicache/storage-backend", "/nothing", "/health", "/health_generate", "/ready", "/metrics",
)  # fmt: skip
OPEN = {"/health", "/health_generate", "/ready", "/metrics"}


@pytest.fixture(scope="module")
def engine(start_engine: Callable[..., Any], model: Path) -> Any:
    """One that is ready."""
    started = start_engine(model)
    started.wait_ready()
    return started


def test_it_asks_for_its_key_on_every_path_but_health_and_metrics(engine: Any) -> None:
    unguarded = {path for path in PATHS if engine.ask("GET", path, key=None).status != 401}
    assert unguarded == OPEN
    assert engine.ask("GET", "/v1/models", key="wrong").status == 401
    assert not any(path in OPEN for path in plugin.llmgw_engine_info().paths)


def test_neither_the_process_list_nor_the_log_shows_the_key(engine: Any) -> None:
    assert engine.key.encode() not in b"".join(engine.command_lines())
    assert engine.key not in engine.text()


def test_on_every_interface_it_only_listens_where_it_was_told_to(engine: Any) -> None:
    (rendezvous,) = engine.shard.extra_ports["rendezvous"]
    assert {port for address, port in engine.listening() if address == "*"} == {rendezvous}


def test_its_metrics_have_every_name_of_the_contract(engine: Any) -> None:
    offered = engine.ask("GET", "/metrics", key=None).body
    (contract,) = plugin.llmgw_engine_info().metrics
    for name in contract.signals.model_dump().values():
        assert f"\n{name}{{" in offered


def test_it_answers_for_any_name_so_that_only_the_list_tells(engine: Any) -> None:
    body = json.dumps({"model": "another", "prompt": "Hello", "max_tokens": 1})
    answer = engine.ask("POST", "/v1/completions", body)
    assert answer.status == 200
    assert json.loads(answer.body)["model"] == "another"


def test_term_lets_a_stream_come_to_its_end(engine: Any) -> None:  # the last one: it ends the engine
    body = {"model": "tiny", "prompt": "Hello", "stream": True, "max_tokens": 100, "ignore_eos": True}
    headers = {"Authorization": f"Bearer {engine.key}", "Content-Type": "application/json"}
    connection = engine.connect(600.0)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        response = connection.getresponse()
        assert response.readline().startswith(b"data: ")
        engine.process.send_signal(signal.SIGTERM)
        rest = response.read()
    finally:
        connection.close()
    assert b'"finish_reason":"length"' in rest
    assert b"[DONE]" in rest
    assert engine.ended() == 0
    assert engine.pids() == set()
