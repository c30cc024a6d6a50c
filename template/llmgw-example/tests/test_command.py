"""The command as a person reads it, and a real process that is started by it and found ready."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import llmgw_example as example
import pytest
from llmgw_core.engine_check.sample import sample_launch, sample_shard
from llmgw_core.spec import Command, Probe, ProbeResponse, Profile, Readiness, Unsupported

PROFILE = Profile(name="cpu", engine="example", max_model_len=512, engine_args={"threads": 2})
SERVER = (sys.executable, str(Path(__file__).with_name("example_server.py")))
DEADLINE = 60.0


def the_command(profile: Profile, *binary: str, source: str = "/models/tiny", **shard: object) -> Command:
    rank = sample_shard(example.ENGINE, profile, 0, model="tiny", source=source).model_copy(update=shard)
    launch = sample_launch(profile, binary=binary or ("/opt/example-server",), version="1.0")
    (command,) = example.llmgw_engine_commands(rank, launch)
    return command


def test_a_profile_gives_a_readable_command() -> None:
    assert the_command(PROFILE).argv == (
        "/opt/example-server",
        "--model=/models/tiny",
        "--name=tiny",
        "--host=10.0.0.1",
        "--port=20000",
        "--context=512",
        "--threads=2",
    )


def test_a_flag_that_no_release_has_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(Unsupported, match="did you mean --threads"):
        the_command(PROFILE.model_copy(update={"engine_args": {"thread": 2}}))


def test_a_real_server_process_is_started_by_the_command_and_found_ready(tmp_path: Path) -> None:
    (tmp_path / "tiny.bin").touch()
    own = {"address": "127.0.0.1", "http_port": 0}  # the server takes any free port and prints it
    command = the_command(PROFILE, *SERVER, source=str(tmp_path / "tiny.bin"), **own)
    shard = sample_shard(example.ENGINE, PROFILE, 0, model="tiny", source="tiny.bin")
    probes = example.llmgw_engine_probes(shard)
    with running(command) as port:
        responses = {name: ask(port, getattr(probes, name)) for name in ("startup", "readiness", "inference")}
    assert example.llmgw_engine_ready(shard, responses) == Readiness(ready=True)


@contextmanager
def running(command: Command) -> Iterator[int]:
    """The server process of a command, as the agent would start it; gives the port that it prints."""
    secrets = {name: value.get_secret_value() for name, value in command.secret_env.items()}
    environment = {**os.environ, **command.env, **secrets}
    with subprocess.Popen(command.argv, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().rpartition(":")[2])
        finally:
            process.terminate()


def ask(port: int, probe: Probe) -> ProbeResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    headers = {"Authorization": "Bearer not a key", "Content-Type": "application/json"}
    try:
        connection.request(probe.method, probe.path, body=probe.body, headers=headers)
        answer = connection.getresponse()
        return ProbeResponse(status=answer.status, body=answer.read().decode())
    finally:
        connection.close()
