"""Whatever an operator writes under engine_args: one argument each, and never a flag of llmgw's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmgw_core.spec import EngineArg, Launch, Shard, Unsupported
from llmgw_llamacpp import plugin

MakeShard = Callable[..., Shard]

# fmt: off
OWNED = (
    "-m", "--model", "-mu", "--model-url", "-hf", "--hf-repo", "-a", "--alias", "--host", "--port",
    "--reuse-port", "--api-key", "--api-key-file", "-c", "--ctx-size", "-np", "-t", "--threads",
    "-ngl", "--gpu-layers", "-sm", "--split-mode", "--embedding", "--metrics", "--ui", "--webui",
    "--no-webui", "--no-ui", "--props", "--tools", "--rpc", "--api-prefix", "--ssl-key-file",
    "--models-dir", "--log-disable", "--verbose", "-v", "--log-prompts-dir", "--help", "--version",
    "--gpt-oss-20b-default",
)
# fmt: on
spellings = st.sampled_from(
    (
        lambda flag: flag,
        lambda flag: flag.lstrip("-"),
        lambda flag: flag.lstrip("-").replace("-", "_"),
        lambda flag: flag.replace("-", "_"),
        lambda flag: flag.lstrip("-").upper(),
        lambda flag: "no-" + flag.lstrip("-"),
        lambda flag: "no_" + flag.lstrip("-").replace("-", "_"),
    )
)
# A number that JSON cannot hold is no engine argument at all: a profile does not take it.
finite = st.floats(allow_nan=False, allow_infinity=False)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    finite,
    st.text(),
    st.lists(st.one_of(st.text(), st.integers(), finite)).map(tuple),
)
hostile = st.sampled_from(
    (
        "--api-key",
        "-m",
        "--port=1",
        "--",
        "-",
        "a b",
        "a\nb",
        '"',
        "'; rm -rf /",
        "$(id)",
        "\0",
        "-1",
        "--no-ui",
    )
)
names = st.one_of(
    st.from_regex(r"-{0,2}[a-zA-Z][a-zA-Z0-9_-]{0,12}", fullmatch=True), st.sampled_from(OWNED), st.text()
)


def items(make_shard: MakeShard, launch: Launch, engine_args: dict[str, EngineArg]) -> tuple[str, ...] | None:
    """argv after the binary; None when the arguments are refused."""
    try:
        (command,) = plugin.llmgw_engine_commands(make_shard(engine_args=engine_args), launch)
    except Unsupported:
        return None
    return command.argv[len(launch.binary) :]


@settings(deadline=None)  # a busy machine is no failure
@given(flag=st.sampled_from(OWNED), spell=spellings, value=st.one_of(values, hostile))
def test_an_owned_flag_is_refused_in_every_spelling(
    make_shard: MakeShard, launch: Launch, flag: str, spell: Callable[[str], str], value: EngineArg
) -> None:
    assert items(make_shard, launch, {spell(flag): value}) is None


@settings(deadline=None)  # a busy machine is no failure
@given(engine_args=st.dictionaries(names, st.one_of(values, hostile), max_size=4))
def test_arguments_are_strings_in_a_fixed_order_and_ours_are_said_once(
    make_shard: MakeShard, launch: Launch, engine_args: dict[str, EngineArg]
) -> None:
    found = items(make_shard, launch, engine_args)
    if found is None:
        return
    assert not any("\0" in item for item in found)
    assert found == items(make_shard, launch, dict(reversed(engine_args.items())))
    for flag in (
        "--model",
        "--alias",
        "--host",
        "--port",
        "--ctx-size",
        "--parallel",
        "--threads",
        "--metrics",
    ):
        assert found.count(flag) == 1
    own = items(make_shard, launch, {}) or ()
    flags = [item for item in found if item.startswith("--")]
    assert len(flags) <= len([item for item in own if item.startswith("--")]) + len(engine_args)


@settings(deadline=None)  # a busy machine is no failure
@given(value=st.one_of(st.text(min_size=1), hostile))
def test_a_text_is_exactly_one_argument_or_refused(make_shard: MakeShard, launch: Launch, value: str) -> None:
    found = items(make_shard, launch, {"chat-template": value})
    if found is None:
        assert value.startswith("-") or "\0" in value
    else:
        assert found[-2:] == ("--chat-template", value)


@pytest.mark.parametrize("number", (-1, -0.5, "-1", "-1.5e3"))
def test_a_negative_number_is_a_value(make_shard: MakeShard, launch: Launch, number: EngineArg) -> None:
    assert items(make_shard, launch, {"cache-ram": number}) is not None


@pytest.mark.parametrize(
    "engine_args",
    (
        {"top-k": 1, "top_k": 2},
        {"a=b": 1},
        {"a b": 1},
        {"": 1},
        {"--": 1},
        {"lora": ()},
        {"lora": ("a,b", "c")},
        {"lora": ("-x",)},
    ),
)
def test_what_llama_server_could_misread_is_refused(
    make_shard: MakeShard, launch: Launch, engine_args: dict[str, EngineArg]
) -> None:
    assert items(make_shard, launch, engine_args) is None


def test_the_refusal_says_what_to_write_instead(make_shard: MakeShard, launch: Launch) -> None:
    with pytest.raises(Unsupported, match=r"engine_args\.ctx_size: set the profile's `max_model_len`"):
        plugin.llmgw_engine_commands(make_shard(engine_args={"ctx_size": 9}), launch)
