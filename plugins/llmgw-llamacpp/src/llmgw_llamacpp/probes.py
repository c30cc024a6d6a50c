"""How to ask llama-server whether it can serve, and how to judge its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from llmgw_core.spec import Probe, ProbeResponse, Probes, Readiness, Shard

__all__ = ["judge", "probes"]

# One token of a large model on a few CPUs takes seconds, the first one more.
_INFERENCE_TIMEOUT = 120.0


def probes(shard: Shard) -> Probes:
    """The requests for a shard of this kind."""
    return Probes(
        startup=Probe(path="/health", timeout=5.0),
        readiness=Probe(path="/v1/models", timeout=10.0),
        inference=_inference(shard),
        # Answered by a thread of its own, but a machine that is full of work may take its time.
        liveness=Probe(path="/health", timeout=10.0),
    )


def _inference(shard: Shard) -> Probe:
    if shard.kind == "embedding":
        # base64, because 4096 numbers as text would exceed what a probe reads.
        path = "/v1/embeddings"
        question: dict[str, object] = {"input": "Hello", "encoding_format": "base64"}
    else:
        # Not the chat route: a model's chat template may refuse a question that we make up.
        path = "/v1/completions"
        question = {"prompt": "Hello", "max_tokens": 1, "temperature": 0}
    body = json.dumps({"model": shard.served_name, **question})
    return Probe(method="POST", path=path, body=body, timeout=_INFERENCE_TIMEOUT)


def judge(shard: Shard, responses: Mapping[str, ProbeResponse]) -> Readiness:
    """Ready when all three answers are there and good; else the first reason against it."""
    inferred = _embedded if shard.kind == "embedding" else _generated
    checks: tuple[tuple[str, Callable[[Any], str]], ...] = (
        ("startup", _healthy),
        ("readiness", lambda answer: _listed(answer, shard.served_name)),
        ("inference", inferred),
    )
    for name, check in checks:
        if reason := _fault(name, responses.get(name), check):
            return Readiness(ready=False, reason=reason)
    return Readiness(ready=True)


def _fault(name: str, response: ProbeResponse | None, check: Callable[[Any], str]) -> str:
    if response is None:
        return f"the {name} probe has not been asked yet"
    if response.status is None:
        return f"no answer to the {name} probe: {response.error or 'no reason given'}"
    if not 200 <= response.status < 300:
        return _refusal(name, response)
    try:
        answer = json.loads(response.body)
    except (ValueError, RecursionError):
        return f"the answer to the {name} probe is cut off or not JSON"
    return check(answer)


def _refusal(name: str, response: ProbeResponse) -> str:
    message = _message(response.body)
    if response.status == 503 and message == "Loading model":
        return "loading the model"
    if response.status == 401:
        return "the engine refuses its own key: another program may be listening on its port"
    return f"the {name} probe was answered with status {response.status}" + (
        f": {message}" if message else ""
    )


def _message(body: str) -> str:
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return message[:200] if isinstance(message, str) else ""


def _healthy(answer: Any) -> str:
    if isinstance(answer, dict) and answer.get("status") == "ok":
        return ""
    return "the health check does not say ok"


def _listed(answer: Any, name: str) -> str:
    models = answer.get("data") if isinstance(answer, dict) else None
    ids = [model.get("id") for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    if name in ids:
        return ""
    shown = ", ".join(str(one)[:80] for one in ids[:3]) or "no model"
    return f"the engine lists {shown} instead of {name}"


def _generated(answer: Any) -> str:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return "the engine answered without one choice"
    usage = answer.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if not isinstance(choices[0].get("text"), str) or not isinstance(tokens, int) or tokens < 1:
        return "the engine answered without a generated token"
    return ""


def _embedded(answer: Any) -> str:
    rows = answer.get("data") if isinstance(answer, dict) else None
    if isinstance(rows, list) and len(rows) == 1 and isinstance(rows[0], dict) and rows[0].get("embedding"):
        return ""
    return "the engine answered without one embedding"
