"""How soon `llmgw up` answers, and what the gateway adds to the first token of an engine.

Starts the real thing with the small model in a state directory of its own, and one bare engine beside it with
the same flags. The engine beside it is asked directly, the other through the gateway, by turns.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2

MODEL = Path(__file__).resolve().parents[1] / ".cache" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
PROGRAMS = Path(sys.executable).parent
ROUNDS = 20
LIMIT = 120.0
"""Seconds after which something that has not answered never will."""


def free_ports() -> tuple[int, int]:
    """Two ports for the bare engine and the gateway; the one above the gateway's is the control plane's."""
    with socket.socket() as engine, socket.socket() as gateway:
        engine.bind(("127.0.0.1", 0))
        gateway.bind(("127.0.0.1", 0))
        return int(engine.getsockname()[1]), int(gateway.getsockname()[1])


@contextlib.contextmanager
def running(argv: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A program that is ended as a person would end it."""
    program = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield program
    finally:
        program.send_signal(signal.SIGINT)
        program.wait(LIMIT)


def first_token(base: str, key: str, model: str) -> float:
    """Seconds from the request to the first event of a streamed chat. Raises httpx2.HTTPError."""
    body = {"model": model, "stream": True, "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    started = time.perf_counter()
    with httpx2.stream(
        "POST", f"{base}/chat/completions", json=body, headers=headers, timeout=LIMIT
    ) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if line.startswith("data:"):
                return time.perf_counter() - started
    raise httpx2.ReadError("the stream ended without an event")


def wait_for(base: str, key_file: Path | None, model: str, program: subprocess.Popen[bytes]) -> None:
    """Wait until one token came through. Raises TimeoutError."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and program.poll() is None:
        try:
            first_token(base, key_file.read_text().strip() if key_file else "", model)
        except (httpx2.HTTPError, OSError):
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"{base} did not answer")


def main() -> None:
    """Print the time to the first answer, and first tokens direct and through the gateway."""
    engine_port, gateway_port = free_ports()
    bare, through = f"http://127.0.0.1:{engine_port}/v1", f"http://127.0.0.1:{gateway_port}/v1"
    model = MODEL.name.partition(".")[0].lower()
    flags = [
        "--alias",
        model,
        "--port",
        str(engine_port),
        "--parallel",
        "2",
        "--ctx-size",
        "4096",
        "--threads",
    ]
    engine = [
        str(PROGRAMS / "llmgw-llama-server"),
        "--model",
        str(MODEL),
        *flags,
        str(max(1, (os.cpu_count() or 2) - 1)),
    ]
    with tempfile.TemporaryDirectory() as state:
        up = [
            str(PROGRAMS / "llmgw"),
            "up",
            "--model",
            str(MODEL),
            "--port",
            str(gateway_port),
            "--state-dir",
            state,
        ]
        started = time.monotonic()
        with running(up) as whole:
            wait_for(through, Path(state) / "api_key", model, whole)
            print(f"llmgw up: first token after {time.monotonic() - started:.1f} s")
            with running(engine) as alone:
                wait_for(bare, None, model, alone)
                compare(bare, through, (Path(state) / "api_key").read_text().strip(), model)


def compare(bare: str, through: str, key: str, model: str) -> None:
    """Ask both by turns, so that both see the same disturbances."""
    direct, gateway = [], []
    for _ in range(ROUNDS):
        direct.append(first_token(bare, "", model))
        gateway.append(first_token(through, key, model))
    one, other = statistics.median(direct), statistics.median(gateway)
    print(
        f"first token: {other * 1000:.1f} ms by the gateway = {other / one:.2f} × direct {one * 1000:.1f} ms"
    )


if __name__ == "__main__":
    main()
