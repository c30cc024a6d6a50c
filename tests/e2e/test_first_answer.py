"""One command, and a chat completion of a real model comes back."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import openai
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.engine]


def _curl(screen: str) -> str:
    lines = screen.splitlines()
    first = next(number for number, line in enumerate(lines) if line.strip().startswith("curl "))
    return "\n".join(lines[first : first + 2])


def test_up_prints_a_curl_line_that_works_as_pasted_and_ctrl_c_stops_everything(
    up: Callable[..., Any],
) -> None:
    one = up()
    screen = one.says("curl ")
    answer = subprocess.run(["bash", "-c", _curl(screen)], capture_output=True, check=True, timeout=60)
    assert json.loads(answer.stdout)["choices"][0]["message"]["content"]
    engine = one.engine()
    one.interrupt()
    assert one.wait() == 0
    assert "1 engine" in one.text
    assert not _alive(engine)


def _alive(pid: int) -> bool:
    return subprocess.run(["kill", "-0", str(pid)], capture_output=True, check=False).returncode == 0


def test_the_openai_client_streams_and_does_not_stream(up: Callable[..., Any], port: int) -> None:
    one = up()
    one.says("curl ")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=one.key, max_retries=0)
    (model,) = client.models.list().data
    ask: Any = {
        "model": model.id,
        "messages": [{"role": "user", "content": "Count to five."}],
        "max_tokens": 12,
    }
    whole = client.chat.completions.create(**ask)
    assert whole.choices[0].message.content
    assert whole.model == model.id
    chunks = list(client.chat.completions.create(stream=True, **ask))
    assert any(chunk.choices and chunk.choices[0].finish_reason for chunk in chunks)
    text = client.completions.create(model=model.id, prompt="Once upon", max_tokens=4)
    assert text.choices[0].text


def test_usage_of_a_request_reaches_the_store(up: Callable[..., Any], until: Callable[..., Any]) -> None:
    one = up()
    one.says("curl ")
    assert one.answers()
    (row,) = until(lambda: one.admin("usage")["usage"], "a usage row")
    assert (row["requests"], row["completion_tokens"]) == (1, 4)
