"""The words after which somebody can use what was started. Pure."""

from __future__ import annotations

import json
import shlex


def curl_lines(gateway_url: str, key: str, model: str) -> str:
    """A command that works as it is pasted, whatever the model is called."""
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello"}]})
    return (
        f"curl {gateway_url}/v1/chat/completions -H {shlex.quote(f'Authorization: Bearer {key}')} \\\n"
        f"       -H 'Content-Type: application/json' -d {shlex.quote(body)}"
    )


def ready_words(gateway_url: str, key: str, model: str) -> str:
    """URL, key, and a first request."""
    return (
        f"\n  URL  {gateway_url}/v1\n  key  {key}\n\n  {curl_lines(gateway_url, key, model)}\n\n"
        "  Ctrl-C stops everything (Ctrl-C twice: at once).  More: llmgw ctl --help\n"
    )
