"""One node: from start to ready, answers, what is open without the key, and the stop."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.spec import Command, parse_version_range
from llmgw_vllm import plugin

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]
StartReplica = Callable[..., tuple[Any, ...]]

# Every path that vLLM 0.32.0 was seen to have, and some that it does not.
PATHS = (
    "/health", "/ping", "/load", "/version", "/metrics", "/docs", "/redoc", "/openapi.json", "/tokenize",
    "/detokenize", "/invocations", "/v1/models", "/v1/chat/completions", "/v1/completions", "/v1/responses",
    "/v1/messages", "/v1/embeddings", "/generative_scoring", "/scale_elastic_ep", "/is_scaling_elastic_ep",
    "/inference/v1/generate", "/server_info", "/sleep", "/reset_prefix_cache", "/v1/load_lora_adapter",
    "/score", "/rerank", "/pooling", "/health/", "//health", "/nonsense", "/",
)  # fmt: skip
CHAT = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4})


@pytest.fixture(scope="module")
def engine(start_replica: StartReplica) -> Any:
    """A replica of one node that is ready."""
    (rank,) = start_replica()
    rank.wait_ready()
    return rank


def test_it_answers_under_the_models_name(engine: Any) -> None:
    answer = json.loads(engine.ask("POST", "/v1/chat/completions", CHAT).body)
    assert answer["model"] == "tiny"
    assert answer["choices"][0]["finish_reason"] in {"length", "stop"}


def test_health_alone_answers_without_the_key(engine: Any) -> None:
    answers = {
        (method, path): engine.ask(method, path, "{}" if method == "POST" else None, key=None).status
        for path in PATHS
        for method in ("GET", "POST", "OPTIONS")
    }
    is_open = sorted(f"{method} {path}" for (method, path), status in answers.items() if status != 401)
    print(f"answered without the key: {is_open}")
    assert {path for (_, path), status in answers.items() if status != 401} == {"/health"}


def test_the_path_that_the_engines_own_check_leaves_open_is_closed(engine: Any) -> None:
    assert engine.ask("POST", "/invocations", CHAT, key=None).status == 401
    assert engine.ask("POST", "/invocations", CHAT, key="wrong").status == 401
    assert engine.ask("POST", "/invocations", CHAT).status == 200


def test_every_signal_of_the_metric_contract_is_live(engine: Any, vllm: tuple[str, str]) -> None:
    info = plugin.llmgw_engine_info()
    (contract,) = [c for c in info.metrics if parse_version_range(c.versions).contains(info, vllm[1])]
    offered = set(re.findall(r"^(vllm:\w+)\{", engine.ask("GET", "/metrics").body, re.MULTILINE))
    assert set(contract.signals.model_dump().values()) <= offered


def test_no_prompt_and_no_probe_is_in_the_log(engine: Any) -> None:
    marked = json.dumps({"model": "tiny", "prompt": "unmistakable-prompt", "max_tokens": 2})
    assert engine.ask("POST", "/v1/completions", marked).status == 200
    assert "unmistakable-prompt" not in engine.text()
    assert "GET /health" not in engine.text()


def test_on_term_it_ends_with_everything_that_it_started(engine: Any) -> None:
    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(120) == 0
    assert engine.left() == ()


def test_an_embedding_model_becomes_ready(start_replica: StartReplica) -> None:
    (rank,) = start_replica(shard={"kind": "embedding"})
    rank.wait_ready()
    rank.close()


def test_without_its_guard_it_does_not_come_up(start_replica: StartReplica) -> None:
    def lose_the_guard(command: Command) -> Command:
        return command.model_copy(update={"env": {**command.env, "PYTHONPATH": "/nonexistent"}})

    (rank,) = start_replica(change=lose_the_guard)
    assert rank.process.wait(600) == 1
    assert rank.failure().failure == "agent"
