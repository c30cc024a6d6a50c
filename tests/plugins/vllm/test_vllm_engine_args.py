"""Whatever an operator writes under engine_args: only strings, and never a flag of llmgw's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmgw_core.spec import (
    Command,
    EngineArg,
    FlagTable,
    Unsupported,
    check_argv,
    owned_flag,
    resolve,
    table_for,
)
from llmgw_vllm import plugin

MakeCommands = Callable[..., tuple[Command, ...]]

TABLES = plugin.llmgw_engine_flags()
ENGINE = plugin.llmgw_engine_info()
VERSIONS = tuple(table.version for table in TABLES if not table.program)
# fmt: off
OWNED = (
    "--model", "--served-model-name", "--host", "--port", "--uds", "--api-key", "--middleware", "--config",
    "--root-path", "--ssl-keyfile", "--allowed-origins", "--tensor-parallel-size", "-tp",
    "--pipeline-parallel-size", "-pp", "--data-parallel-size", "-dp", "--data-parallel-address", "--nnodes",
    "-n", "--node-rank", "-r", "--master-addr", "--master-port", "--headless",
    "--distributed-executor-backend", "--max-model-len", "--quantization", "-q", "--kv-cache-dtype",
    "--enable-lora", "--lora-modules", "--runner", "--task", "--enable-log-requests",
    "--disable-log-stats", "--log-config-file", "--disable-fastapi-docs", "--allowed-local-media-path",
    "--api-server-count", "-asc", "--grpc", "--help", "-h", "--device", "--hf-token",
)
CODE = (
    "--trust-remote-code", "--code-revision", "--worker-cls", "--worker-extension-cls", "--scheduler-cls",
    "--logits-processors", "--io-processor-plugin", "--tool-parser-plugin", "--reasoning-parser-plugin",
    "--kv-transfer-config", "--tool-server", "--enable-prompt-embeds",
)
# fmt: on
spellings = st.sampled_from(
    (
        lambda flag: flag,
        lambda flag: flag.lstrip("-"),
        lambda flag: flag.replace("-", "_"),
        lambda flag: flag.lstrip("-").replace("-", "_"),
        lambda flag: "no-" + flag.lstrip("-"),
        lambda flag: "--no_" + flag.lstrip("-").replace("-", "_"),
        lambda flag: flag[:-1],
        lambda flag: flag + "=x",
        lambda flag: flag + ".1",
        lambda flag: flag[:-1] + ".x.y",
        lambda flag: " " + flag,
    )
)
finite = st.floats(allow_nan=False, allow_infinity=False)
items = st.one_of(st.text(), st.integers(), finite)
values = st.one_of(st.none(), st.booleans(), items, st.lists(items).map(tuple))
hostile = st.sampled_from(
    ("--api-key", "-tp", "--port=1", "--", "-", "a b", "a\nb", '"', "'; rm -rf /", "$(id)", "\0", "-1", "")
)
known = st.sampled_from(sorted(set().union(*(table.by_name for table in TABLES if not table.program))))
names = st.one_of(
    st.from_regex(r"-{0,2}[a-zA-Z][a-zA-Z0-9_.-]{0,12}", fullmatch=True),
    known,
    st.sampled_from((*OWNED, *CODE)),
    st.text(),
)
WORLDS: tuple[dict[str, Any], ...] = (
    {},
    {"tensor_parallel": 4, "gpus_per_node": 4},
    {"nodes": 2, "tensor_parallel": 4, "gpus_per_node": 2, "launch_mode": "ray"},
    {"nodes": 2, "tensor_parallel": 2, "pipeline_parallel": 2, "gpus_per_node": 2},
    {"nodes": 2, "tensor_parallel": 2, "data_parallel": 4, "gpus_per_node": 4},
    {"quantization": "awq", "kv_cache_dtype": "auto", "max_model_len": 99, "lora": {"a": "/a"}},
    {"shard": {"kind": "embedding"}},
)


def table_of(version: str, program: str = "") -> FlagTable:
    found = table_for(TABLES, ENGINE, version, program)
    assert found is not None
    return found.table


def argv_of(commands: MakeCommands, **asked: Any) -> tuple[str, ...] | None:
    """What follows `vllm serve MODEL`; None when it is refused."""
    try:
        return commands(**asked)[-1].argv[3:]
    except Unsupported:
        return None


@settings(deadline=None)  # a busy machine is no failure
@given(
    flag=st.sampled_from(OWNED),
    spell=spellings,
    value=st.one_of(values, hostile),
    version=st.sampled_from(("", *VERSIONS)),
)
def test_an_owned_flag_is_refused_in_every_spelling(
    commands: MakeCommands, flag: str, spell: Callable[[str], str], value: EngineArg, version: str
) -> None:
    plain = argv_of(commands, version=version)
    written = spell(flag)
    asked = argv_of(commands, version=version, engine_args={written: value}, allow_remote_code=True)
    if asked is not None:
        # What looks like a beginning of ours may be another flag, or none at all.
        (added,) = {item for item in asked if item.startswith("--")} - set(plain or ())
        for table in TABLES:
            assert not set(resolve(table, added)) & set(resolve(table, flag))


@settings(deadline=None)
@given(flag=st.sampled_from(CODE), spell=spellings, value=values, version=st.sampled_from(("", *VERSIONS)))
def test_code_of_others_needs_the_operators_word(
    commands: MakeCommands, flag: str, spell: Callable[[str], str], value: EngineArg, version: str
) -> None:
    asked = argv_of(commands, version=version, engine_args={spell(flag): value})
    if asked is not None:
        last = next(item for item in reversed(asked) if item.startswith("--"))
        assert owned_flag(TABLES, {flag}, last) is None


@pytest.mark.parametrize("flag", CODE)
def test_code_of_others_is_refused_with_what_to_write(commands: MakeCommands, flag: str) -> None:
    with pytest.raises(Unsupported, match="allow_remote_code: true"):
        commands(engine_args={flag: None})


def test_code_of_others_comes_with_the_operators_word(commands: MakeCommands) -> None:
    (engine,) = commands(engine_args={"trust_remote_code": True}, allow_remote_code=True)
    assert engine.argv[-1] == "--trust-remote-code"


@settings(deadline=None)
@given(
    engine_args=st.dictionaries(names, st.one_of(values, hostile), max_size=4),
    version=st.sampled_from(("", *VERSIONS)),
)
def test_arguments_are_strings_that_follow_ours_and_come_out_the_same_each_time(
    commands: MakeCommands, engine_args: dict[str, EngineArg], version: str
) -> None:
    ours = commands(version=version)[-1].argv[3:]
    found = argv_of(commands, version=version, engine_args=engine_args)
    assert found == argv_of(commands, version=version, engine_args=dict(reversed(engine_args.items())))
    if found is not None:
        assert found[: len(ours)] == ours
        assert not any("\0" in item for item in found)
        flags = [item for item in found[len(ours) :] if item.startswith("--")]
        assert len(flags) == len(engine_args)


@settings(deadline=None)
@given(value=st.one_of(hostile, st.text()).filter(lambda text: "\0" not in text))
def test_a_value_stays_one_argument_behind_its_flag(commands: MakeCommands, value: str) -> None:
    (engine,) = commands(engine_args={"chat-template": value})
    assert engine.argv[-1] == f"--chat-template={value}"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: "-".join(world) or "plain")
@pytest.mark.parametrize("rank", (0, 1))
def test_every_flag_is_in_the_table_of_the_release(
    commands: MakeCommands, version: str, world: dict[str, Any], rank: int
) -> None:
    if rank >= world.get("nodes", 1):
        return
    try:
        made = commands(rank, version=version, **world)
    except Unsupported:
        # Only the ways over several nodes came later than the oldest release.
        assert world.get("nodes", 1) > 1
        assert world.get("launch_mode") != "ray"
        return
    for command in made:
        ray = command.argv[0].endswith("ray")
        table = table_of(version, "ray start" if ray else "")
        arguments = command.argv[2 if ray else 3 :]
        assert check_argv(table, arguments) == ()


@pytest.mark.parametrize(
    ("engine_args", "field", "reason"),
    (
        ({"swap-space": 4}, "swap-space", "the last release that has it is 0.17.0"),
        ({"disable_log_requests": None}, "disable_log_requests", "prompts and answers"),
        ({"max-seq-len-to-capture": 1}, "max-seq-len-to-capture", "use --cudagraph-capture-sizes"),
        ({"max-num-sqs": 4}, "max-num-sqs", "did you mean --max-num-seqs?"),
        ({"enforce-eager": "yes"}, "enforce-eager", "it takes no value"),
        ({"seed": None}, "seed", "it takes one value, and has 0"),
        ({"scheduling-policy": "lifo"}, "scheduling-policy", "none of fcfs, priority"),
        (
            {"gpu-memory-utilization": 0.5, "device_memory_utilization": 0.6},
            "gpu-memory-utilization",
            "twice",
        ),
        ({"cudagraph-capture-sizes": ()}, "cudagraph-capture-sizes", "at least one item"),
        ({"cudagraph-capture-sizes": ("--port",)}, "cudagraph-capture-sizes", "begins with a dash"),
        ({"-tp": 2}, "-tp", ""),
        ({"": 1}, "", "not the long name"),
    ),
)
def test_what_a_release_does_not_take_is_refused_with_the_reason(
    commands: MakeCommands, engine_args: dict[str, EngineArg], field: str, reason: str
) -> None:
    with pytest.raises(Unsupported) as caught:
        commands(version="0.32.0", engine_args=engine_args)
    assert caught.value.field == f"engine_args.{field}"
    assert reason in caught.value.reason


def test_a_flag_of_an_old_release_is_taken_by_that_release(commands: MakeCommands) -> None:
    (engine,) = commands(version="0.17.0", engine_args={"swap-space": 4})
    assert engine.argv[-1] == "--swap-space=4"


def test_a_list_follows_its_flag_and_a_json_key_is_part_of_it(commands: MakeCommands) -> None:
    given = {"cudagraph-capture-sizes": (1, 2, 4), "compilation_config.cudagraph_mode": "NONE"}
    (engine,) = commands(version="0.32.0", engine_args=given)
    expected = ("--compilation-config.cudagraph_mode=NONE", "--cudagraph-capture-sizes", "1", "2", "4")
    assert engine.argv[-5:] == expected
