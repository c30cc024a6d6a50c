"""A real engine serves: ready after three answers, the right names, streams, and a key on every door."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llmgw_core.spec import Readiness
from llmgw_llamacpp import plugin

pytestmark = pytest.mark.engine

CHAT = {"model": "smol", "max_tokens": 8, "messages": [{"role": "user", "content": "Say hello."}]}
GUARDED = (
    "/v1/models",
    "/models",
    "/metrics",
    "/slots",
    "/props",
    "/v1/completions",
    "/nowhere",
    "/tokenize",
)


@pytest.fixture(scope="module")
def engine(start_engine: Callable[..., Any], model: Path, binary: tuple[str, ...]) -> Any:
    running = start_engine(model, binary)
    running.wait_ready()
    return running


def test_it_is_ready_only_after_the_third_answer(engine: Any) -> None:
    answers = engine.answers()
    assert [answer.status for answer in answers.values()] == [200, 200, 200]
    for missing in ("inference", "readiness"):
        partial = {name: answer for name, answer in answers.items() if name != missing}
        assert not plugin.llmgw_engine_ready(engine.shard, partial).ready
    assert plugin.llmgw_engine_ready(engine.shard, answers) == Readiness(ready=True)


def test_an_engine_of_another_model_is_not_ready(engine: Any) -> None:
    other = engine.shard.model_copy(update={"served_name": "other"})
    verdict = plugin.llmgw_engine_ready(other, engine.answers())
    assert verdict == Readiness(ready=False, reason="the engine lists smol instead of other")


def test_it_lists_one_name_and_the_context_of_one_request(engine: Any) -> None:
    (listed,) = json.loads(engine.ask("GET", "/v1/models").body)["data"]
    assert listed["id"] == "smol"
    assert listed["meta"]["n_ctx"] == 512


def test_it_completes_a_chat(engine: Any) -> None:
    answer = json.loads(engine.ask("POST", "/v1/chat/completions", json.dumps(CHAT)).body)
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] >= 1
    assert answer["model"] == "smol"


def test_it_streams_to_the_end(engine: Any) -> None:
    body = json.dumps({**CHAT, "stream": True, "stream_options": {"include_usage": True}})
    events = [
        line.removeprefix("data: ")
        for line in engine.ask("POST", "/v1/chat/completions", body).body.splitlines()
        if line.startswith("data: ")
    ]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert [c["finish_reason"] for chunk in chunks for c in chunk["choices"]][-1] in {"stop", "length"}
    assert chunks[-1]["usage"]["completion_tokens"] >= 1


def test_a_request_that_is_too_long_is_refused_and_the_engine_lives(engine: Any) -> None:
    body = json.dumps({"model": "smol", "prompt": "word " * 2000, "max_tokens": 1})
    answer = engine.ask("POST", "/v1/completions", body)
    assert answer.status == 400
    assert "context" in json.loads(answer.body)["error"]["message"]
    assert engine.verdict().ready


@pytest.mark.parametrize("key", (None, "wrong"))
def test_every_path_but_health_needs_the_key(engine: Any, key: str | None) -> None:
    assert engine.ask("GET", "/health", key=key).status == 200
    assert {path: engine.ask("GET", path, key=key).status for path in GUARDED} == dict.fromkeys(GUARDED, 401)
    answer = engine.ask("POST", "/v1/chat/completions", json.dumps(CHAT), key=key)
    assert answer.status == 401
    assert "key" in json.loads(answer.body)["error"]["message"].lower()


def test_its_metrics_have_the_names_of_the_contract(engine: Any) -> None:
    shown = engine.ask("GET", "/metrics").body
    (contract,) = plugin.llmgw_engine_info().metrics
    for name in (contract.signals.running, contract.signals.waiting, contract.signals.tokens_total):
        assert f"\n{name} " in shown


def test_neither_the_key_nor_a_prompt_can_be_read_from_outside(engine: Any) -> None:
    prompt = "a sentence that nobody else has written"
    engine.ask("POST", "/v1/completions", json.dumps({"prompt": prompt, "max_tokens": 1}))
    command_line = Path(f"/proc/{engine.process.pid}/cmdline").read_text()
    assert "key-of-this-test" not in command_line
    assert "key-of-this-test" not in engine.text()
    assert prompt not in engine.text()


def test_a_healthy_log_shows_no_failure(engine: Any) -> None:
    assert "model loaded" in engine.text()
    assert engine.failure() is None


def test_its_build_is_read_from_its_version(binary: tuple[str, ...]) -> None:
    spec = plugin.llmgw_engine_info().binary
    done = subprocess.run([*binary, *spec.version_args], capture_output=True, text=True, check=True)
    found = re.search(spec.version_pattern, done.stdout + done.stderr)
    assert found is not None
    assert int(found[1]) > 1000


def test_an_embedding_model_embeds_inputs_longer_than_the_default_batch(
    start_engine: Callable[..., Any], model: Path
) -> None:
    engine = start_engine(model, kind="embedding", max_model_len=640, engine_args={"pooling": "mean"})
    engine.wait_ready()
    answer = engine.ask("POST", "/v1/embeddings", json.dumps({"input": "word " * 520}))
    assert answer.status == 200
    assert len(json.loads(answer.body)["data"][0]["embedding"]) == 576
    engine.close()
