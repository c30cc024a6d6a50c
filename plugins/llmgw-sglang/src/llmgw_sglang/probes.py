"""How to ask SGLang whether it can serve, and how to judge its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from llmgw_core.spec import Probe, ProbeResponse, Probes, Readiness, Shard

from llmgw_sglang.topology import serves_http

__all__ = ["judge", "probes"]

# /health generates a token and never answers within a second; SGLang itself gives up after 20.
_HEALTH_TIMEOUT = 30.0
# The first request may compile kernels, and one token of a model on CPUs takes seconds.
_INFERENCE_TIMEOUT = 120.0


def probes(shard: Shard) -> Probes | None:
    """The requests for rank 0; None for a worker, which is judged by staying alive.

    A worker's /health says only that the process has started, whatever became of the other ranks; the token
    that rank 0 generates needs them all.
    """
    if not serves_http(shard):
        return None
    question = {"model": shard.served_name, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
    return Probes(
        startup=Probe(path="/health", timeout=_HEALTH_TIMEOUT),
        readiness=Probe(path="/v1/models", timeout=10.0),
        # Not the chat route: a model may have no chat template.
        inference=Probe(
            method="POST", path="/v1/completions", body=json.dumps(question), timeout=_INFERENCE_TIMEOUT
        ),
        # Any token of any request is enough for it, so that a busy engine does not fail it.
        liveness=Probe(path="/health", timeout=_HEALTH_TIMEOUT),
    )


def judge(shard: Shard, responses: Mapping[str, ProbeResponse]) -> Readiness:
    """Ready when all three answers are there and good; else the first reason against it.

    The name is looked for in the list of models: SGLang answers a request for any name, and repeats it.
    """
    checks: tuple[tuple[str, Callable[[Any], str] | None], ...] = (
        ("startup", None),
        ("readiness", lambda answer: _listed(answer, shard.served_name)),
        ("inference", _generated),
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
        return f"no answer yet, SGLang opens its port when the model is loaded: {error}"
    return f"no answer to the {name} probe: {error}"


def _refusal(name: str, response: ProbeResponse) -> str:
    if response.status == 401:
        return "the engine refuses its own key: another program may be listening on its port"
    if response.status == 503 and name == "startup":
        return "SGLang is warming up, is about to end, or gets no token from its ranks"
    message = _message(response.body)
    return f"the {name} probe was answered with status {response.status}" + (
        f": {message}" if message else ""
    )


def _message(body: str) -> str:
    """The engine's sentence without the source lines of its installation that follow it."""
    try:
        message = json.loads(body)["message"]  # not under "error", as OpenAI has it
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return message.partition("\n")[0][:200] if isinstance(message, str) else ""


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
