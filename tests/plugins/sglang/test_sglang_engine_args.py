"""Whatever an operator writes under engine_args: one argument each, and never a flag of llmgw's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmgw_core.spec import EngineArg, FlagTable, Launch, Shard, Unsupported, check_argv
from llmgw_sglang import plugin

MakeShard = Callable[..., Shard]
NEWEST: FlagTable = plugin.llmgw_engine_flags()[-1]

# fmt: off
OWNED = (
    "--model-path", "--model", "--served-model-name", "--host", "--port", "--config", "--api-key",
    "--admin-api-key", "--tp-size", "--tensor-parallel-size", "--pp-size", "--pipeline-parallel-size",
    "--dp-size", "--data-parallel-size", "--nnodes", "--node-rank", "--dist-init-addr", "--nccl-init-addr",
    "--nccl-port", "--context-length", "--quantization", "--kv-cache-dtype", "--device", "--base-gpu-id",
    "--enable-lora", "--lora-paths", "--is-embedding", "--enable-metrics", "--log-level", "--log-level-http",
    "--log-requests", "--log-requests-level", "--crash-dump-folder", "--fastapi-root-path", "--ssl-keyfile",
    "--grpc-mode", "--smg-grpc-mode", "--grpc-port", "--grpc-http-sidecar-port", "--use-ray", "--sidecar",
    "--enable-dp-attention", "--attn-dp-size", "--attention-data-parallel-size", "--model-type",
    "--disaggregation-mode", "--enable-custom-logit-processor", "--tool-server", "--help", "-h",
)
SHORTENED = (
    "--tp", "--pp", "--dp", "--api", "--con", "--conf", "--ho", "--por", "--served", "--tensor", "--nn",
    "--dist-init", "--context", "--quant", "--log-l", "--crash", "--admin",
)
# fmt: on
spellings = st.sampled_from(
    (
        lambda flag: flag,
        lambda flag: flag.lstrip("-"),
        lambda flag: flag.lstrip("-").replace("-", "_"),
        lambda flag: flag.replace("-", "_"),
        lambda flag: flag + "=1",
        lambda flag: "no-" + flag.lstrip("-"),
        lambda flag: "no_" + flag.lstrip("-").replace("-", "_"),
    )
)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.lists(st.one_of(st.text(), st.integers())).map(tuple),
)
hostile = st.sampled_from(
    (
        "--api-key",
        "--port=1",
        "--config",
        "--",
        "-",
        "-h",
        "a b",
        "a\nb",
        '"',
        "'; rm -rf /",
        "$(id)",
        "\0",
        "-1",
        "-1e3",
    )
)
known = st.sampled_from(sorted(name.lstrip("-") for name in NEWEST.by_name))
names = st.one_of(
    known,
    st.from_regex(r"-{0,2}[a-zA-Z][a-zA-Z0-9_-]{0,12}", fullmatch=True),
    st.sampled_from(OWNED),
    st.text(),
)
versions = st.sampled_from(("", "0.4.0", "0.4.9", "0.5.4", "0.5.20", "0.5.22", "0.5.23", "0.7.1"))


def items(
    make_shard: MakeShard, launch: Launch, engine_args: Mapping[str, EngineArg], version: str = "0.5.23"
) -> tuple[str, ...] | None:
    """argv after the binary; None when the arguments are refused."""
    try:
        (command,) = plugin.llmgw_engine_commands(
            make_shard(engine_args=engine_args), launch.model_copy(update={"version": version})
        )
    except Unsupported:
        return None
    return command.argv[len(launch.binary) :]


owned_words = st.builds(lambda spell, flag: spell(flag), spellings, st.sampled_from(OWNED))


@settings(deadline=None)  # a busy machine is no failure
@given(word=owned_words, value=st.one_of(values, hostile), version=versions)
def test_an_owned_flag_is_refused_in_every_spelling(
    make_shard: MakeShard, launch: Launch, word: str, value: EngineArg, version: str
) -> None:
    assert items(make_shard, launch, {word: value}, version) is None


@pytest.mark.parametrize("beginning", SHORTENED)
@pytest.mark.parametrize("version", ("0.4.0", "0.5.23"))
def test_the_beginning_of_an_owned_flag_is_refused(
    make_shard: MakeShard, launch: Launch, beginning: str, version: str
) -> None:
    assert items(make_shard, launch, {beginning: 1}, version) is None


@settings(deadline=None)  # a busy machine is no failure
@given(engine_args=st.dictionaries(names, st.one_of(values, hostile), max_size=4), version=versions)
def test_arguments_are_strings_in_a_fixed_order_and_ours_are_said_once(
    make_shard: MakeShard, launch: Launch, engine_args: dict[str, EngineArg], version: str
) -> None:
    found = items(make_shard, launch, engine_args, version)
    if found is None:
        return
    assert not any("\0" in item for item in found)
    assert found == items(make_shard, launch, dict(reversed(engine_args.items())), version)
    for flag in ("--model-path", "--served-model-name", "--host", "--port", "--tp-size", "--log-level"):
        assert len([item for item in found if item.startswith(f"{flag}=")]) == 1
    assert [item for item in found if "--api-key" in item] == [
        item for item in (items(make_shard, launch, {}, version) or ()) if "--api-key" in item
    ]
    own = items(make_shard, launch, {}, version) or ()
    assert len(flags_of(found)) == len(flags_of(own)) + len(engine_args)


def flags_of(argv: tuple[str, ...]) -> list[str]:
    return [item for item in argv if item.startswith("--")]


@settings(deadline=None)  # a busy machine is no failure
@given(engine_args=st.dictionaries(known, st.one_of(values, hostile), max_size=3))
def test_what_is_not_refused_is_in_the_table_with_that_many_values(
    make_shard: MakeShard, launch: Launch, engine_args: dict[str, EngineArg]
) -> None:
    found = items(make_shard, launch, engine_args)
    if found is not None:
        assert check_argv(NEWEST, found[1:]) == ()


@settings(deadline=None)  # a busy machine is no failure
@given(value=st.one_of(st.text(), hostile))
def test_a_text_is_exactly_one_argument_or_refused(make_shard: MakeShard, launch: Launch, value: str) -> None:
    found = items(make_shard, launch, {"chat-template": value})
    if found is None:
        assert "\0" in value
    else:
        assert f"--chat-template={value}" in found


def test_a_list_is_a_flag_with_its_items(make_shard: MakeShard, launch: Launch) -> None:
    found = items(make_shard, launch, {"cuda-graph-bs-decode": (1, 2, 4)}) or ()
    at = found.index("--cuda-graph-bs-decode")
    assert found[at + 1 : at + 4] == ("1", "2", "4")
    assert found[at + 4].startswith("--")


def test_a_switch_that_has_an_opposite_can_be_turned_off(make_shard: MakeShard, launch: Launch) -> None:
    assert "--no-lora-strict-loading" in (items(make_shard, launch, {"lora-strict-loading": False}) or ())


@pytest.mark.parametrize(
    "engine_args",
    (
        {"disable-radix-cache": False},
        {"stream-interval": 1, "stream_interval": 2},
        {"speculative-draft-model": "/a", "speculative-draft-model-path": "/b"},
        {"a b": 1},
        {"": 1},
        {"--": 1},
        {"Stream-Interval": 1},
        {"cuda-graph-bs-decode": ()},
        {"cuda-graph-bs-decode": ("-x",)},
        {"cuda-graph-bs-decode": ("-1e3",)},
        {"stream-interval": (1, 2)},
        {"stream-interval": None},
        {"disable-radix-cache": "yes"},
        {"dtype": "float7"},
        {"mem-fraction": 0.8},
        {"swap-space": 4},
    ),
)
def test_what_sglang_would_refuse_or_misread_is_refused(
    make_shard: MakeShard, launch: Launch, engine_args: dict[str, EngineArg]
) -> None:
    assert items(make_shard, launch, engine_args) is None


@pytest.mark.parametrize(
    "flag", ("trust-remote-code", "custom-weight-loader", "forward_hooks", "trust-remote")
)
def test_code_of_others_needs_the_operators_word(make_shard: MakeShard, launch: Launch, flag: str) -> None:
    with pytest.raises(Unsupported, match="allow_remote_code: true"):
        plugin.llmgw_engine_commands(make_shard(engine_args={flag: True}), launch)


def test_with_the_operators_word_it_is_passed_on(make_shard: MakeShard, launch: Launch) -> None:
    shard = make_shard(engine_args={"trust-remote-code": True}, allow_remote_code=True)
    (command,) = plugin.llmgw_engine_commands(shard, launch)
    assert "--trust-remote-code" in command.argv
    (command,) = plugin.llmgw_engine_commands(make_shard(allow_remote_code=True), launch)
    assert "--trust-remote-code" not in command.argv


@pytest.mark.parametrize(
    ("version", "flag", "reason"),
    (
        ("0.5.20", "torchao-config", "the last release that has it is 0.5.16"),
        ("0.5.23", "stream-output", "use --incremental-streaming-output"),
        ("0.5.8", "enable-ep-moe", "use --ep-size"),
        ("0.4.9", "max-queued-requests", "the first release that has it is 0.5.2"),
    ),
)
def test_a_flag_of_another_release_is_refused_with_what_replaces_it(
    make_shard: MakeShard, launch: Launch, version: str, flag: str, reason: str
) -> None:
    shard, old = make_shard(engine_args={flag: 1}), launch.model_copy(update={"version": version})
    with pytest.raises(Unsupported) as refused:
        plugin.llmgw_engine_commands(shard, old)
    assert reason in refused.value.reason


def test_the_refusal_says_what_to_write_instead(make_shard: MakeShard, launch: Launch) -> None:
    with pytest.raises(Unsupported, match=r"engine_args\.context_length: set the profile's `max_model_len`"):
        plugin.llmgw_engine_commands(make_shard(engine_args={"context_length": 9}), launch)
