"""The example driver: its commands, how it judges answers, and a run of a real server process."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import llmgw_example as example
import pytest
from llmgw_core.spec import (
    Command,
    Epoch,
    Launch,
    Peer,
    Probe,
    ProbeResponse,
    Profile,
    Readiness,
    Shard,
    Unsupported,
)
from pydantic import SecretStr

SERVER = (sys.executable, str(Path(__file__).with_name("example_server.py")))
DEADLINE = 60.0


def a_shard(**changes: Any) -> Shard:
    profile = Profile(name="cpu", engine="example", **changes.pop("profile", {}))
    fields: dict[str, Any] = {
        "shard": "r-abcdefghij/0",
        "replica": "r-abcdefghij",
        "rank": 0,
        "world": 1,
        "epoch": Epoch(number=1, control="c"),
        "catalog_revision": "1",
        "revision": "0" * 12,
        "model": "tiny",
        "served_name": "tiny",
        "source": "/models/tiny.bin",
        "engine": "example",
        "profile": profile,
        "peers": (Peer(node="n", address="127.0.0.1"),),
        "address": "127.0.0.1",
        "leader_address": "127.0.0.1",
        "http_port": 20001,
    }
    return Shard(**(fields | changes))


def a_launch(key: str | None = "the-key") -> Launch:
    return Launch(
        binary=("/opt/example-server",),
        version="1.0",
        key=SecretStr(key) if key else None,
        work_dir="/work",
        log_dir="/log",
    )


def the_command(shard: Shard, launch: Launch | None = None) -> Command:
    (command,) = example.llmgw_engine_commands(shard, launch or a_launch())
    return command


def test_the_entry_point_bears_the_name_of_the_plugin_and_of_the_engine() -> None:
    (entry_point,) = entry_points(group="llmgw", name="example")
    assert entry_point.load() is example
    assert example.llmgw_plugin_info().name == example.llmgw_engine_info().name == "example"


def test_a_plain_profile_gives_a_readable_command() -> None:
    assert the_command(a_shard()).argv == (
        "/opt/example-server",
        "--model=/models/tiny.bin",
        "--name=tiny",
        "--host=127.0.0.1",
        "--port=20001",
    )


def test_profile_fields_and_engine_arguments_become_flags() -> None:
    arguments = {"threads": 2, "verbose": True, "quiet": False, "stop": ("a", "b")}
    shard = a_shard(profile={"max_model_len": 512, "engine_args": arguments})
    expected = ("--context=512", "--stop=a", "--stop=b", "--threads=2", "--verbose")
    assert the_command(shard).argv[5:] == expected


@pytest.mark.parametrize("value", ("a b", "--port=1", "-x", "line\nbreak", "'\"", ""))
def test_a_hostile_value_stays_one_argument(value: str) -> None:
    argv = the_command(a_shard(served_name=value, profile={"engine_args": {"note": value}})).argv
    assert f"--name={value}" in argv
    assert f"--note={value}" in argv
    assert len(argv) == 6


def test_the_key_is_in_the_secret_environment_and_nowhere_else() -> None:
    command = the_command(a_shard())
    assert command.secret_env["EXAMPLE_API_KEY"].get_secret_value() == "the-key"
    assert "the-key" not in repr(command)
    assert not the_command(a_shard(), a_launch(key=None)).secret_env


@pytest.mark.parametrize(
    ("changes", "field"),
    (
        ({"world": 2}, "nodes"),
        ({"kind": "embedding"}, "kind"),
        ({"profile": {"gpus_per_node": 1}}, "gpus_per_node"),
        ({"profile": {"quantization": "q4"}}, "quantization"),
        ({"profile": {"lora": {"a": "/a"}}}, "lora"),
        ({"profile": {"engine_args": {"port": 1}}}, "engine_args.port"),
    ),
)
def test_what_the_engine_cannot_do_is_refused_by_its_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(Unsupported) as caught:
        the_command(a_shard(**changes))
    assert caught.value.field == field


GOOD = {
    "startup": ProbeResponse(status=200),
    "readiness": ProbeResponse(status=200, body='{"data": [{"id": "tiny"}]}'),
    "inference": ProbeResponse(status=200, body='{"choices": [{}]}'),
}


def test_three_good_answers_are_ready() -> None:
    assert example.llmgw_engine_ready(a_shard(), GOOD).ready


@pytest.mark.parametrize("probe", ("startup", "readiness", "inference"))
@pytest.mark.parametrize(
    "answer",
    (
        None,
        ProbeResponse(error="connection refused"),
        ProbeResponse(status=404, body="{}"),
        ProbeResponse(status=500),
        ProbeResponse(status=503, body='{"error": "loading"}'),
    ),
)
def test_an_answer_that_is_missing_or_bad_is_not_ready_and_named(
    probe: str, answer: ProbeResponse | None
) -> None:
    responses = {name: good for name, good in GOOD.items() if name != probe}
    readiness = example.llmgw_engine_ready(a_shard(), responses | ({probe: answer} if answer else {}))
    assert not readiness.ready
    assert readiness.reason.startswith(probe)


@pytest.mark.parametrize("probe", ("readiness", "inference"))
@pytest.mark.parametrize(
    "body", ("", "{", "[]", "null", '{"data": null}', '{"data": [1]}', '{"choices": []}')
)
def test_a_body_that_is_broken_is_not_ready(probe: str, body: str) -> None:
    readiness = example.llmgw_engine_ready(a_shard(), GOOD | {probe: ProbeResponse(status=200, body=body)})
    assert not readiness.ready
    assert readiness.reason.startswith(probe)


def test_a_server_with_another_model_is_not_ready_and_says_which() -> None:
    other = ProbeResponse(status=200, body='{"data": [{"id": "huge"}]}')
    readiness = example.llmgw_engine_ready(a_shard(), GOOD | {"readiness": other})
    assert readiness.reason == "readiness: serves huge, not tiny"


def test_a_real_server_process_is_started_by_the_command_and_found_ready(tmp_path: Path) -> None:
    model = tmp_path / "tiny.bin"
    model.write_text("weights")
    shard = a_shard(source=str(model), http_port=0)
    launch = Launch(
        binary=SERVER, version="1.0", key=SecretStr("the-key"), work_dir=str(tmp_path), log_dir=str(tmp_path)
    )
    probes = example.llmgw_engine_probes(shard)
    with running(the_command(shard, launch)) as port:
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
    headers: Mapping[str, str] = {"Authorization": "Bearer the-key", "Content-Type": "application/json"}
    try:
        connection.request(probe.method, probe.path, body=probe.body, headers=headers)
        answer = connection.getresponse()
        return ProbeResponse(status=answer.status, body=answer.read().decode())
    finally:
        connection.close()
