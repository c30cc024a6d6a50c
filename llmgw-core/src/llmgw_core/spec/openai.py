"""Probes and their judgement for engines that speak the OpenAI API, which are most of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llmgw_core.spec.engine import Probe, ProbeResponse, Probes, Readiness
from llmgw_core.spec.shard import Shard

__all__ = ["openai_probes", "openai_ready"]

_INFERENCE_TIMEOUT = 120.0
"""Seconds: the first request may compile kernels, and one token of a model on CPUs takes its time."""
_LIVENESS_TIMEOUT = 30.0
"""Seconds: the server that answers is also the one that reads every prompt and writes every chunk."""


def openai_probes(shard: Shard, *, health: str = "/health") -> Probes:
    """Up, loaded under the right name, able to infer; `health` is the path that a busy engine answers too.

    A chat model is asked for one token of `/v1/completions`, since it may have no chat template.
    """
    question: dict[str, object] = {"prompt": "Hello", "max_tokens": 1, "temperature": 0}
    path = "/v1/completions"
    if shard.kind == "embedding":
        path, question = "/v1/embeddings", {"input": "Hello"}
    body = json.dumps({"model": shard.served_name, **question})
    return Probes(
        startup=Probe(path=health, timeout=10.0),
        readiness=Probe(path="/v1/models", timeout=10.0),
        inference=Probe(method="POST", path=path, body=body, timeout=_INFERENCE_TIMEOUT),
        liveness=Probe(path=health, timeout=_LIVENESS_TIMEOUT),
    )


def openai_ready(shard: Shard, responses: Mapping[str, ProbeResponse]) -> Readiness:
    """Ready when all three answers are there and good; else the first reason against it."""
    for name in ("startup", "readiness", "inference"):
        if fault := _status_fault(name, responses.get(name)) or _body_fault(name, shard, responses[name]):
            return Readiness(ready=False, reason=fault)
    return Readiness(ready=True)


def _status_fault(name: str, response: ProbeResponse | None) -> str:
    if response is None:
        return f"the {name} probe has not been asked yet"
    if response.status is None:
        return f"no answer to the {name} probe: {response.error or 'no reason given'}"
    if response.status == 401:
        return "the engine refuses its own key: another program may be listening on its port"
    if not 200 <= response.status < 300:
        return f"the {name} probe was answered with status {response.status}"
    return ""


def _body_fault(name: str, shard: Shard, response: ProbeResponse) -> str:
    if name == "startup":  # some engines answer it with nothing
        return ""
    try:
        answer = json.loads(response.body)
    except (ValueError, RecursionError):
        return f"the answer to the {name} probe is cut off or not JSON"
    if name == "readiness":
        return _name_fault(answer, shard.served_name)
    return _embedding_fault(answer) if shard.kind == "embedding" else _token_fault(answer)


def _name_fault(answer: Any, name: str) -> str:
    ids = [str(model.get("id")) for model in _rows(answer, "data")]
    if name in ids:
        return ""
    return f"the engine lists {', '.join(one[:80] for one in ids[:3]) or 'no model'} instead of {name}"


def _token_fault(answer: Any) -> str:
    choices = _rows(answer, "choices")
    if not choices or not ("text" in choices[0] or "message" in choices[0]):
        return "the engine answered without a choice"
    usage = answer.get("usage")
    # Not every engine counts; one that does must have counted a token.
    tokens = usage.get("completion_tokens", 1) if isinstance(usage, dict) else 1
    return "" if isinstance(tokens, int) and tokens > 0 else "the engine answered without a generated token"


def _embedding_fault(answer: Any) -> str:
    rows = _rows(answer, "data")
    return "" if rows and rows[0].get("embedding") else "the engine answered without an embedding"


def _rows(answer: Any, key: str) -> list[dict[str, Any]]:
    found = answer.get(key) if isinstance(answer, dict) else None
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
