"""Each build gets its own spelling of a flag, and what it does not take is refused before it is started."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from llmgw_core.spec import EngineArg, Launch, Shard, Unsupported, check_argv, table_for
from llmgw_llamacpp import plugin
from llmgw_llamacpp.info import ENGINE
from llmgw_llamacpp.tables import LAUNCHER, TABLES, is_launcher

MakeShard = Callable[..., Shard]
REAL = ("/usr/bin/llama-server",)
EMBEDDED = ("/venv/bin/python", "-m", "llmgw_llamacpp.launcher")


@pytest.fixture
def arguments(make_shard: MakeShard, launch: Launch) -> Callable[..., tuple[str, ...]]:
    """What follows the program for some engine_args of a build; Unsupported where it is refused."""

    def given(
        version: str, engine_args: dict[str, EngineArg], binary: tuple[str, ...] = REAL
    ) -> tuple[str, ...]:
        at = launch.model_copy(update={"version": version, "binary": binary})
        (command,) = plugin.llmgw_engine_commands(make_shard(engine_args=engine_args), at)
        own = plugin.llmgw_engine_commands(make_shard(), at)[0].argv
        return command.argv[len(own) :]

    return given


Arguments = Callable[..., tuple[str, ...]]


@pytest.mark.parametrize("version", ("0", "9093", "9743", "10248", "10991", "11434"))
def test_what_the_plugin_says_by_itself_is_in_the_table_of_every_build(
    make_shard: MakeShard, launch: Launch, version: str
) -> None:
    found = table_for(TABLES, ENGINE, version)
    assert found is not None
    assert found.table.version == version
    for profile in ({}, {"gpus_per_node": 2, "tensor_parallel": 2, "kv_cache_dtype": "q8_0"}):
        at = launch.model_copy(update={"version": version})
        (command,) = plugin.llmgw_engine_commands(make_shard(**profile), at)
        assert check_argv(found.table, command.argv[1:]) == ()


@pytest.mark.parametrize(
    ("version", "engine_args", "emitted"),
    (
        ("10248", {"mlock": True}, ("--mlock",)),
        ("10991", {"mlock": True}, ("--load-mode", "mlock")),
        ("11434", {"mmap": False}, ("--load-mode", "none")),
        ("11434", {"no-mmap": None}, ("--load-mode", "none")),
        ("11434", {"mmap": True}, ("--load-mode", "mmap")),
        ("9743", {"mmap": False}, ("--no-mmap",)),
        ("10248", {"load-mode": "mlock"}, ("--load-mode", "mlock")),
        ("9743", {"load-mode": "mlock"}, ("--mlock",)),
        ("9743", {"load_mode": "none"}, ("--no-mmap",)),
        ("9093", {"flash-attn": True}, ("--flash-attn", "on")),
        ("11434", {"flash-attn": "auto"}, ("--flash-attn", "auto")),
        ("8000", {"flash-attn": True}, ("--flash-attn",)),
        ("8000", {"flash-attn": False}, ()),
    ),
)
def test_a_flag_that_changed_is_passed_as_the_build_knows_it(
    arguments: Arguments, version: str, engine_args: dict[str, EngineArg], emitted: tuple[str, ...]
) -> None:
    assert arguments(version, engine_args) == emitted


@pytest.mark.parametrize(
    ("version", "engine_args", "reason"),
    (
        ("11434", {"mlok": True}, "llama.cpp 11434: there is no such flag"),
        ("11434", {"ctx-chekpoints": 2}, "did you mean --ctx-checkpoints?"),
        ("11434", {"fa": "on"}, "did you mean --flash-attn?"),
        ("11434", {"rope-scaling": "cubic"}, "its value is none of none, linear, yarn"),
        ("11434", {"rope-scaling": True}, "it takes one value, and has 0"),
        ("11434", {"swa-full": "yes"}, "it takes no value, and has 1"),
        ("11434", {"draft-max": 4}, "use --spec-draft-n-max"),
        ("10000", {"load-mode": "dio"}, "the first release that has it is 10248"),
        ("9093", {"cors-origin": "x"}, None),
        ("12000", {"a-flag-of-tomorrow": 1}, None),
        ("12000", {"swa-full": "yes"}, "it takes no value, and has 1"),
        ("", {"a-flag-of-nobody": 1}, "there is no such flag"),
        ("", {"mlock": True}, None),
    ),
)
def test_what_a_build_does_not_take_is_refused_with_the_reason(
    arguments: Arguments, version: str, engine_args: dict[str, EngineArg], reason: str | None
) -> None:
    if reason is None:
        assert arguments(version, engine_args)
        return
    with pytest.raises(Unsupported) as refused:
        arguments(version, engine_args)
    assert refused.value.field == f"engine_args.{next(iter(engine_args))}"
    assert reason in refused.value.reason


def test_two_flags_that_become_one_are_refused(arguments: Arguments) -> None:
    with pytest.raises(Unsupported, match="given twice, in two spellings"):
        arguments("11434", {"mlock": True, "mmap": True})


@pytest.mark.parametrize("binary", (EMBEDDED, ("/venv/bin/llmgw-llama-server",)))
def test_the_embedded_launcher_takes_its_own_options_only(
    arguments: Arguments, launch: Launch, binary: tuple[str, ...]
) -> None:
    assert is_launcher(launch.model_copy(update={"binary": binary}))
    assert arguments("11549", {"top-k": 3}, binary) == ("--top-k", "3")
    assert arguments("11549", {"mlock": True}, binary) == ("--load-mode", "mlock")
    with pytest.raises(Unsupported, match="there is no such flag"):
        arguments("11549", {"rope-scaling": "yarn"}, binary)


def test_the_launchers_own_help_is_whole_and_part_of_the_real_ones() -> None:
    assert LAUNCHER.complete, LAUNCHER.incomplete_because
    real = table_for(TABLES, ENGINE, "11434")
    assert real is not None
    assert LAUNCHER.by_name.keys() <= real.table.by_name.keys()


def test_the_plugin_gives_its_tables_to_the_host() -> None:
    versions = [table.version for table in plugin.llmgw_engine_flags()]
    assert versions == ["0", "9093", "9743", "10248", "10991", "11434"]
