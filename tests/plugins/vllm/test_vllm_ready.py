"""Probes that fit, and what is judged of their answers: bodies as vLLM 0.32.0 gave them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.spec import ProbeResponse, Shard
from llmgw_vllm import plugin

MakeShard = Callable[..., Shard]
NAME = "llama-3.3-70b"
HEALTH = ProbeResponse(status=200)
MODELS = ProbeResponse(status=200, body=json.dumps({"object": "list", "data": [{"id": NAME}, {"id": "sql"}]}))


def completion(text: Any = "!", tokens: Any = 1) -> ProbeResponse:
    body = {"choices": [{"index": 0, "text": text}], "usage": {"completion_tokens": tokens}}
    return ProbeResponse(status=200, body=json.dumps(body))


GOOD = {"startup": HEALTH, "readiness": MODELS, "inference": completion()}


def error(status: int, message: str) -> ProbeResponse:
    return ProbeResponse(status=status, body=json.dumps({"error": {"message": message, "code": status}}))


def test_good_answers_to_all_three_are_ready(make_shard: MakeShard) -> None:
    assert plugin.llmgw_engine_ready(make_shard(), GOOD).ready


@pytest.mark.parametrize(
    ("changed", "reason"),
    (
        ({"startup": ProbeResponse(error="refused")}, "opens its port when the model is loaded: refused"),
        ({"startup": ProbeResponse(status=503)}, "its engine has died"),
        ({"readiness": ProbeResponse(error="timed out")}, "no answer to the readiness probe: timed out"),
        ({"readiness": error(401, "x")}, "refuses its own key"),
        (
            {"readiness": ProbeResponse(status=200, body='{"data":[{"id":"other"}]}')},
            f"other instead of {NAME}",
        ),
        ({"readiness": ProbeResponse(status=200, body='{"data":[]}')}, f"no model instead of {NAME}"),
        ({"readiness": ProbeResponse(status=200, body="[1]")}, f"no model instead of {NAME}"),
        ({"readiness": ProbeResponse(status=200, body='{"data":')}, "cut off or not JSON"),
        (
            {"inference": error(500, "EngineCore encountered an issue")},
            "500: EngineCore encountered an issue",
        ),
        ({"inference": error(404, "The model does not exist.")}, "404: The model does not exist."),
        ({"inference": ProbeResponse(status=500, body="[" * 9999)}, "with status 500"),
        ({"inference": completion(tokens=0)}, "without a generated token"),
        ({"inference": completion(tokens="1")}, "without a generated token"),
        ({"inference": completion(text=None)}, "without a generated token"),
        ({"inference": ProbeResponse(status=200, body='{"choices":[]}')}, "without one choice"),
        ({"inference": None}, "the inference probe has not been asked yet"),
    ),
)
def test_any_other_answer_is_not_ready_and_says_why(
    make_shard: MakeShard, changed: dict[str, ProbeResponse | None], reason: str
) -> None:
    answers = {name: answer for name, answer in {**GOOD, **changed}.items() if answer is not None}
    verdict = plugin.llmgw_engine_ready(make_shard(), answers)
    assert not verdict.ready
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("body", "ready"), (({"data": [{"embedding": "AAAA"}]}, True), ({"data": [{}]}, False), ({}, False))
)
def test_an_embedding_model_is_ready_with_one_embedding(
    make_shard: MakeShard, body: dict[str, Any], ready: bool
) -> None:
    shard = make_shard(shard={"kind": "embedding"})
    answers = {**GOOD, "inference": ProbeResponse(status=200, body=json.dumps(body))}
    assert plugin.llmgw_engine_ready(shard, answers).ready == ready


@pytest.mark.parametrize(("kind", "path"), (("chat", "/v1/completions"), ("embedding", "/v1/embeddings")))
def test_the_inference_probe_asks_for_the_models_own_name(
    make_shard: MakeShard, kind: str, path: str
) -> None:
    probes = plugin.llmgw_engine_probes(make_shard(shard={"kind": kind}))
    assert probes is not None
    assert probes.inference.path == path
    assert json.loads(probes.inference.body or "")["model"] == NAME
    assert probes.liveness.timeout >= 30.0


@pytest.mark.parametrize("mode", ("mp", "ray"))
def test_only_the_leader_of_several_nodes_is_asked(make_shard: MakeShard, mode: str) -> None:
    over_nodes: dict[str, Any] = {"nodes": 2, "tensor_parallel": 2, "launch_mode": mode}
    assert plugin.llmgw_engine_probes(make_shard(0, **over_nodes)) is not None
    assert plugin.llmgw_engine_probes(make_shard(1, **over_nodes)) is None
