"""The key of a replica: in a file where the release can read one, in the process list where it cannot."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from llmgw_core.spec import Command, Launch, Shard
from llmgw_sglang import plugin
from pydantic import SecretStr

MakeShard = Callable[..., Shard]
FILE = "/state/work/engine-key.yaml"
READS_A_FILE = ("0.5.4", "0.5.6", "0.5.23", "0.5.24", "0.6.0", "")
READS_NONE = ("0.4.0", "0.4.6", "0.5.2", "0.5.3")

ascii_keys = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


def command(make_shard: MakeShard, launch: Launch, key: str | None, version: str = "0.5.23") -> Command:
    update = {"key": SecretStr(key) if key else None, "version": version}
    (one,) = plugin.llmgw_engine_commands(make_shard(), launch.model_copy(update=update))
    return one


@pytest.mark.parametrize("version", READS_A_FILE)
def test_the_key_is_in_a_file_and_nowhere_else(make_shard: MakeShard, launch: Launch, version: str) -> None:
    found = command(make_shard, launch, "c0ffee" * 8, version)
    assert list(found.secret_files) == [FILE]
    assert found.secret_files[FILE].get_secret_value() == 'api-key: "' + "c0ffee" * 8 + '"\n'
    assert "c0ffee" not in repr(found)
    assert dict(found.secret_env) == {}


@pytest.mark.parametrize("version", READS_A_FILE)
def test_the_file_is_named_in_two_words(make_shard: MakeShard, launch: Launch, version: str) -> None:
    # SGLang 0.5.23 passes over --config=FILE without a word, and asks nobody for a key.
    argv = command(make_shard, launch, "c0ffee", version).argv
    assert argv.count("--config") == 1
    assert argv[argv.index("--config") + 1] == FILE
    assert not any(item.startswith("--config=") for item in argv)


@pytest.mark.parametrize("version", READS_NONE)
def test_a_release_that_reads_no_file_gets_an_argument(
    make_shard: MakeShard, launch: Launch, version: str
) -> None:
    found = command(make_shard, launch, "c0ffee", version)
    assert found.argv[-1] == "--api-key=c0ffee"
    assert dict(found.secret_files) == {}


@settings(deadline=None)  # a busy machine is no failure
@given(key=ascii_keys)
@example(key="0123456789")  # YAML would drop the zero
@example(key="1234567e89")
@example(key="null")
@example(key='"')
@example(key="\\x41")
@example(key="#no")
def test_yaml_reads_the_key_as_it_is(make_shard: MakeShard, launch: Launch, key: str) -> None:
    content = command(make_shard, launch, key).secret_files[FILE].get_secret_value()
    assert yaml.safe_load(content) == {"api-key": key}


def test_the_log_level_keeps_the_key_out_of_the_log(make_shard: MakeShard, launch: Launch) -> None:
    # At `info` SGLang writes all its settings down.
    assert "--log-level=warning" in command(make_shard, launch, "c0ffee").argv


@pytest.mark.parametrize("version", (*READS_A_FILE, *READS_NONE))
def test_without_a_key_the_engine_asks_for_none(make_shard: MakeShard, launch: Launch, version: str) -> None:
    found = command(make_shard, launch, None, version)
    assert dict(found.secret_files) == {}
    assert not any("--config" in item or "--api-key" in item for item in found.argv)


def test_a_worker_asks_nobody_and_has_no_key(make_shard: MakeShard, launch: Launch) -> None:
    (found,) = plugin.llmgw_engine_commands(make_shard(rank=1, nodes=2, tensor_parallel=2), launch)
    assert dict(found.secret_files) == {}
    assert "--config" not in found.argv
