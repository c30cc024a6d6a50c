"""Two nodes as two addresses of this machine: up, answering, and what rank 0 makes of a lost worker."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]
StartReplica = Callable[..., tuple[Any, ...]]
COMPLETION = json.dumps({"model": "tiny", "prompt": "Hello", "max_tokens": 4})
LISTEN = "0A"


@pytest.fixture(scope="module")
def replica(start_replica: StartReplica) -> tuple[Any, Any]:
    """Both ranks of a replica that is ready."""
    leader, worker = start_replica(nodes=2, tensor_parallel=2)
    leader.wait_ready()
    return leader, worker


def wildcard_ports(pids: tuple[int, ...]) -> set[int]:
    """Ports on which these processes listen on every interface."""
    sockets = {
        os.readlink(entry).removeprefix("socket:[").removesuffix("]")
        for pid in pids
        for entry in Path(f"/proc/{pid}/fd").iterdir()
        if entry.is_symlink()
    }
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {
        int(row[1].split(":")[1], 16)
        for row in rows
        if row[3] == LISTEN and row[9] in sockets and not row[1].split(":")[0].strip("0")
    }


def test_the_leader_answers(replica: tuple[Any, Any]) -> None:
    leader, _ = replica
    assert leader.ask("POST", "/v1/completions", COMPLETION).status == 200


def test_the_worker_has_no_http(replica: tuple[Any, Any]) -> None:
    _, worker = replica
    assert worker.ask("GET", "/health", timeout=5).status is None


def test_the_rendezvous_port_alone_listens_on_every_interface(replica: tuple[Any, Any]) -> None:
    leader, worker = replica
    assert wildcard_ports(leader.left()) == {leader.shard.rendezvous_port}
    assert wildcard_ports(worker.left()) == set()


def test_an_idle_leader_does_not_notice_a_lost_worker_and_ends_with_0(replica: tuple[Any, Any]) -> None:
    leader, worker = replica
    os.killpg(worker.process.pid, signal.SIGKILL)
    worker.process.wait(60)
    assert leader.ask("GET", "/health", timeout=30).status == 200
    assert leader.ask("POST", "/v1/completions", COMPLETION).status != 200
    assert leader.process.wait(120) == 0
