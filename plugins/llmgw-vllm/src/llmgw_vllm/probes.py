"""How to ask vLLM whether it can serve, and how to judge its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from llmgw_core.spec import Probe, ProbeResponse, Probes, Readiness, Shard

from llmgw_vllm.topology import serves_http

__all__ = ["judge", "probes"]

# The first request may compile kernels, and one token of a model on CPUs takes seconds.
_INFERENCE_TIMEOUT = 120.0
# The server that answers is also the one that reads every prompt and writes every chunk.
_BUSY_TIMEOUT = 30.0


def probes(shard: Shard) -> Probes | None:
    """The requests for a rank; None for a worker, which has no HTTP and is judged by staying alive."""
    if not serves_http(shard):
        return None
    return Probes(
        startup=Probe(path="/health", timeout=10.0),
        readiness=Probe(path="/v1/models", timeout=10.0),
        inference=_inference(shard),
        liveness=Probe(path="/health", timeout=_BUSY_TIMEOUT),
    )


def _inference(shard: Shard) -> Probe:
    if shard.kind == "embedding":
        # base64, because 4096 numbers as text would exceed what a probe reads.
        path = "/v1/embeddings"
        question: dict[str, object] = {"input": "Hello", "encoding_format": "base64"}
    else:
        # Not the chat route: a model may have no chat template.
        path = "/v1/completions"
        question = {"prompt": "Hello", "max_tokens": 1, "temperature": 0}
    body = json.dumps({"model": shard.served_name, **question})
    return Probe(method="POST", path=path, body=body, timeout=_INFERENCE_TIMEOUT)


def judge(shard: Shard, responses: Mapping[str, ProbeResponse]) -> Readiness:
    """Ready when all three answers are there and good; else the first reason against it.

    /health alone proves little: vLLM was seen healthy and ending with the first request.
    """
    inferred = _embedded if shard.kind == "embedding" else _generated
    checks: tuple[tuple[str, Callable[[Any], str] | None], ...] = (
        ("startup", None),
        ("readiness", lambda answer: _listed(answer, shard.served_name)),
        ("inference", inferred),
    )
    for name, check in checks:
        if reason := _fault(name, responses.get(name), check):
            return Readiness(ready=False, reason=reason)
    return Readiness(ready=True)


def _fault(name: str, response: ProbeResponse | None, check: Callable[[Any], str] | None) -> str:
    if response is None:
        return f"the {name} probe has not been asked yet"
    if response.status is None:
        return _silence(name, response.error or "no reason given")
    if not 200 <= response.status < 300:
        return _refusal(name, response)
    if check is None:  # the body of /health is empty
        return ""
    try:
        answer = json.loads(response.body)
    except (ValueError, RecursionError):
        return f"the answer to the {name} probe is cut off or not JSON"
    return check(answer)


def _silence(name: str, error: str) -> str:
    if name == "startup":
        return f"no answer yet, vLLM opens its port when the model is loaded: {error}"
    return f"no answer to the {name} probe: {error}"


def _refusal(name: str, response: ProbeResponse) -> str:
    if response.status == 401:
        return "the engine refuses its own key: another program may be listening on its port"
    if response.status == 503 and name == "startup":
        return "vLLM says that its engine has died"
    message = _message(response.body)
    return f"the {name} probe was answered with status {response.status}" + (
        f": {message}" if message else ""
    )


def _message(body: str) -> str:
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return message[:200] if isinstance(message, str) else ""


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
