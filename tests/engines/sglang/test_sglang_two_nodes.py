"""Two ranks of a real SGLang on two addresses: they meet, and neither is left behind when one goes."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llmgw_sglang import plugin

pytestmark = [pytest.mark.engine, pytest.mark.timeout(3600)]


@pytest.fixture
def ranks(start_engine: Callable[..., Any], model: Path) -> tuple[Any, Any]:
    """Leader and worker, ready."""
    with socket.socket() as http, socket.socket() as rendezvous:
        http.bind(("", 0))
        rendezvous.bind(("", 0))
        ports = http.getsockname()[1], rendezvous.getsockname()[1]
    leader = start_engine(model, rank=0, nodes=2, ports=ports)
    leader.wait_until(lambda: ("*", ports[1]) in leader.listening(), "a rendezvous that listens")
    worker = start_engine(model, rank=1, nodes=2, ports=ports)
    leader.wait_ready()
    return leader, worker


def test_a_worker_says_little_and_a_killed_one_takes_the_leader_with_it(ranks: tuple[Any, Any]) -> None:
    leader, worker = ranks
    # Its 200 says only that it has started; there is nothing else to ask, and no key to ask with.
    assert plugin.llmgw_engine_probes(worker.shard) is None
    worker.wait_until(lambda: worker.ask("GET", "/health", key=None).status == 200, "an answer of the worker")
    assert worker.ask("GET", "/v1/models").status == 404
    assert {port for address, port in leader.listening() if address == "*"} == {leader.shard.rendezvous_port}
    assert {port for address, port in worker.listening() if address == "*"} == set()
    worker.close()
    leader.ask("GET", "/health", timeout=30.0)  # an idle leader notices with the next token
    assert leader.ended() == -signal.SIGKILL


def test_a_worker_passes_over_term_and_ends_with_the_leader(ranks: tuple[Any, Any]) -> None:
    leader, worker = ranks
    worker.process.send_signal(signal.SIGTERM)
    asked = time.monotonic()
    worker.wait_until(lambda: time.monotonic() > asked + 5, "five seconds")
    assert leader.verdict().ready
    leader.process.send_signal(signal.SIGTERM)
    assert leader.ended() == 0
    worker.ended()
    assert leader.pids() | worker.pids() == set()
