"""What a good engine with an OpenAI API answers, and what an engine in trouble does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from llmgw_core.spec import Probe, ProbeResponse, Shard

__all__ = ["bad_bodies", "bad_statuses", "openai_answer"]


def openai_answer(probe: Probe, shard: Shard) -> ProbeResponse:
    """A good answer to a probe, by the end of its path."""
    name = shard.served_name
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choice = {"index": 0, "finish_reason": "length"}
    message = {"role": "assistant", "content": "Hi"}
    bodies: Mapping[str, Any] = {
        "/models": {"object": "list", "data": [{"id": name, "object": "model"}]},
        "/chat/completions": {"model": name, "choices": [{**choice, "message": message}], "usage": usage},
        "/completions": {"model": name, "choices": [{**choice, "text": "Hi"}], "usage": usage},
        "/embeddings": {"model": name, "data": [{"index": 0, "embedding": [0.5, 0.25]}], "usage": usage},
    }
    body = next((body for end, body in bodies.items() if probe.path.endswith(end)), {"status": "ok"})
    return ProbeResponse(status=200, body=json.dumps(body))


def bad_statuses() -> Iterator[tuple[str, ProbeResponse | None]]:
    """Answers that are no good whatever was asked."""
    yield "a probe that was not asked", None
    yield "a refused connection", ProbeResponse(error="connection refused")
    for status in (401, 404, 500, 503):
        yield f"status {status}", ProbeResponse(status=status, body='{"error": {"message": "no"}}')
    yield "status 500 without a body", ProbeResponse(status=500)


def bad_bodies(good: str) -> Iterator[tuple[str, ProbeResponse]]:
    """Bodies that are no good after a 200: cut off, of another shape, of another program."""
    for cut in sorted({0, 1, len(good) // 2, len(good) - 1}):
        yield f"a body cut off after {cut} characters", ProbeResponse(status=200, body=good[:cut])
    for body in ("null", "[]", "{}", "0", '"ok"', '{"data": null}', '{"data": [null]}', '{"choices": []}'):
        yield f"the body {body}", ProbeResponse(status=200, body=body)
    yield "the page of another program", ProbeResponse(status=200, body="<html>It works!</html>")
    yield "a body nested without end", ProbeResponse(status=200, body="[" * 50_000)
