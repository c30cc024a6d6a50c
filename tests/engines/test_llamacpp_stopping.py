"""How the embedded engine ends: at once while it loads, with code 0 when it serves, never with its parent."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engine


@pytest.fixture
def loading(start_engine: Callable[..., Any], tmp_path: Path) -> Iterator[Any]:
    """An engine that loads for ever: opening a pipe waits for somebody who writes into it."""
    pipe = tmp_path / "model.gguf"
    os.mkfifo(pipe)
    engine = start_engine(pipe)
    engine.wait_until(lambda: engine.ask("GET", "/health").status is not None, "answer while loading")
    yield engine
    engine.close()


def test_while_it_loads_every_question_is_answered_by_503(loading: Any) -> None:
    for path in ("/health", "/v1/models", "/metrics"):
        answer = loading.ask("GET", path)
        assert answer.status == 503
        assert json.loads(answer.body)["error"]["message"] == "Loading model"
    verdict = loading.verdict()
    assert (verdict.ready, verdict.reason) == (False, "loading the model")


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT))
def test_a_signal_while_it_loads_ends_it_at_once(loading: Any, number: signal.Signals) -> None:
    loading.process.send_signal(number)
    assert loading.ended() == -number


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT))
def test_a_signal_when_it_is_ready_ends_it_with_code_0(
    start_engine: Callable[..., Any], model: Path, number: signal.Signals
) -> None:
    engine = start_engine(model)
    engine.wait_ready()
    engine.process.send_signal(number)
    assert engine.ended() == 0
    assert engine.failure() is None
    assert "Traceback" not in engine.text()


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGKILL))
def test_a_stream_in_flight_is_cut_without_its_end(
    start_engine: Callable[..., Any], model: Path, number: signal.Signals
) -> None:
    engine = start_engine(model, max_model_len=4096)
    engine.wait_ready()
    body = {"prompt": "Once", "stream": True, "max_tokens": 4000, "ignore_eos": True}
    connection = engine.connect()
    try:
        connection.request(
            "POST", "/v1/completions", json.dumps(body), {"Authorization": "Bearer key-of-this-test"}
        )
        response = connection.getresponse()
        first = response.readline()
        assert first.startswith(b"data: ")
        engine.process.send_signal(number)
        rest = _until_it_breaks(response)
    finally:
        connection.close()
    assert b"[DONE]" not in rest
    assert b'"finish_reason":"' not in rest
    assert engine.ended() == (0 if number is signal.SIGTERM else -number)
    # llama.cpp's own way to stop waits up to 30 s for the stream.
    assert "waiting for main loop exit" not in engine.text()


def _until_it_breaks(response: http.client.HTTPResponse) -> bytes:
    """What still comes; the real server closes the body cleanly, the embedded one breaks it off."""
    try:
        return response.read()
    except http.client.IncompleteRead as error:
        return error.partial
    except ConnectionError:
        return b""


def test_it_outlives_the_process_that_started_it(
    start_engine: Callable[..., Any], model: Path, tmp_path: Path
) -> None:
    # A started engine shows the command; a second one is then started by a process that ends.
    first = start_engine(model)
    first.close()
    starter = (
        "import subprocess, sys\n"
        "with open(sys.argv[1], 'wb') as log:\n"
        "    child = subprocess.Popen(sys.argv[2:], stdout=log, stderr=log, start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "child.returncode = 0\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", starter, str(tmp_path / "log"), *first.process.args],
        capture_output=True,
        text=True,
        check=True,
    )
    pid = int(done.stdout)
    try:
        end = time.monotonic() + 60
        while first.ask("GET", "/health").status != 200:
            assert time.monotonic() < end, (tmp_path / "log").read_text()
            time.sleep(0.05)
        assert Path(f"/proc/{pid}/stat").exists()
    finally:
        os.kill(pid, signal.SIGKILL)
