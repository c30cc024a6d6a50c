"""Bad input gets a clear answer, and nothing is lost."""

from __future__ import annotations

import os
import signal
import socket
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.engine]


@pytest.fixture(params=("junk", "truncated", "empty"))
def broken_model(request: pytest.FixtureRequest, tmp_path: Path, model_file: Path) -> Path:
    """A file that no engine can load."""
    whole = model_file.read_bytes()
    contents = {"junk": b"junk" * 10_000, "truncated": whole[: len(whole) // 2], "empty": b""}
    path = tmp_path / "broken.gguf"
    path.write_bytes(contents[request.param])
    return path


def test_a_model_file_that_is_no_model_fails_as_configuration_with_the_engines_words(
    broken_model: Path, up: Callable[..., Any], until: Callable[..., Any]
) -> None:
    one = up(model=broken_model)
    one.says("configuration")
    (model,) = until(lambda: one.admin("models")["models"], "the model's row")
    assert model["state"] == "failed"
    assert "not retried until the catalog changes" in model["next"]
    (failed,) = [row for row in one.replicas() if row["state"] == "Failed"]
    assert failed["failure"]["class"] == "configuration"
    last_line = failed["failure"]["tail"].strip().splitlines()[-1]
    assert last_line in one.text
    ask = {"model": "broken", "messages": [{"role": "user", "content": "Hi"}]}
    until(lambda: one.post(ask).json()["error"]["code"] == "model_not_ready", "a gateway with its table")
    one.interrupt()
    assert one.wait() == 0


def test_a_model_file_that_is_missing_is_refused_before_anything_starts(
    up: Callable[..., Any], tmp_path: Path
) -> None:
    one = up(model=tmp_path / "absent.gguf")
    assert one.wait() == 2
    assert "absent.gguf" in one.text
    assert not (one.state / "children.json").exists()


def test_a_node_without_an_engine_says_so_and_how_to_get_one(up: Callable[..., Any]) -> None:
    one = up(env={"LLMGW_AGENT__ENGINES": '{"llamacpp": "/nonexistent/llama-server"}'})
    screen = one.says("/nonexistent/llama-server")
    assert "unschedulable" in screen
    one.interrupt()
    assert one.wait() == 0


def test_a_port_in_use_names_its_holder(up: Callable[..., Any], port: int) -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        holder.listen()
        one = up()
        assert one.wait() == 2
    assert f"pid {os.getpid()}" in one.text
    assert "Traceback" not in one.text


def test_broken_yaml_is_refused_with_line_and_column(up: Callable[..., Any], tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.yaml"
    catalog.write_text("version: 1\nmodels:\n  a: [unclosed\n")
    one = up("--catalog", str(catalog), model=None)
    assert one.wait() == 2
    assert f"{catalog}:" in one.text


def test_an_unknown_engine_is_refused_with_what_is_installed(up: Callable[..., Any], tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.yaml"
    catalog.write_text(
        "version: 1\nmodels:\n  a:\n    source: /x\n    profiles: [{name: p, engine: nope, cpus: 1}]\n"
    )
    one = up("--catalog", str(catalog), model=None)
    assert one.wait() == 2
    assert "nope" in one.text
    assert "llamacpp" in one.text


def test_a_state_directory_that_cannot_be_made_is_named(up: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file is in the way")
    one = up()
    assert one.wait() == 2
    assert str(tmp_path / "state") in one.text
    (tmp_path / "state").unlink()


def test_requests_that_cannot_be_served_get_openai_errors(up: Callable[..., Any]) -> None:
    one = up()
    one.says("curl ")
    good = {"model": "smollm2-135m-instruct", "messages": [{"role": "user", "content": "Hi"}]}
    answers = {
        (401, "invalid_api_key"): one.post(good, key="llmgw-wrong"),
        (404, "model_not_found"): one.post({**good, "model": "nope"}),
        (400, "invalid_json"): one.post(b"{"),
    }
    for (status, code), answer in answers.items():
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_a_model_that_is_loading_is_503_with_retry_after_until_it_is_ready(
    up: Callable[..., Any], until: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "go"
    slow = tmp_path / "slow-llama-server"
    slow.write_text(
        textwrap.dedent(
            f"""\
            #!/bin/sh
            [ "$1" = --version ] || until [ -e {gate} ]; do sleep 0.1; done
            exec {sys.executable} -m llmgw_llamacpp.launcher "$@"
            """
        )
    )
    slow.chmod(0o755)
    one = up(env={"LLMGW_AGENT__ENGINES": f'{{"llamacpp": "{slow}"}}'})
    one.says("loading")
    body = {
        "model": "smollm2-135m-instruct",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 2,
    }

    def refused() -> httpx2.Response | None:
        try:
            answer = one.post(body)
        except httpx2.HTTPError:
            return None
        return answer if answer.json()["error"]["code"] == "model_not_ready" else None

    answer = until(refused, "a 503 of the gateway")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    gate.touch()
    one.says("curl ")
    assert one.answers()


def test_an_engine_killed_in_mid_stream_ends_with_an_error_and_never_with_done(
    up: Callable[..., Any],
) -> None:
    one = up()
    one.says("curl ")
    engine = one.engine()
    body = {
        "model": "smollm2-135m-instruct",
        "messages": [{"role": "user", "content": "Tell me a long story."}],
        "stream": True,
        "max_tokens": 4000,
        "ignore_eos": True,
    }
    received: list[str] = []
    with pytest.raises(httpx2.RemoteProtocolError):
        _read_and_kill(one, body, engine, received)
    text = "\n".join(received)
    assert "upstream_disconnected" in text
    assert "[DONE]" not in text
    one.says("ready")
    assert one.engine() != engine
    assert one.answers()


def _read_and_kill(one: Any, body: dict[str, Any], engine: int, received: list[str]) -> None:
    headers = {"Authorization": f"Bearer {one.key}"}
    url = f"http://127.0.0.1:{one.port}/v1/chat/completions"
    with (
        httpx2.Client(trust_env=False, timeout=60) as client,
        client.stream("POST", url, json=body, headers=headers) as response,
    ):
        for line in response.iter_lines():
            received.append(line)
            if len(received) == 6:
                os.kill(engine, signal.SIGKILL)
