"""The complete help texts of real engines: everything in them is found, and a part of them is seen as one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from llmgw_core.spec import Arity, Flag, FlagTable, help_program, parse_help

Sample = Callable[[str], str]

HELPS = {
    "llama.cpp/help-10991.txt": (250, 404, ""),
    "llama.cpp/help-11434.txt": (251, 405, ""),
    "vllm/help-0.32.0.txt": (317, 430, "vllm serve"),
    "sglang/help-0.5.23.txt": (530, 559, "sglang serve"),
    "ray/help-start-2.60.0.txt": (39, 40, "ray start"),
}


def table_of(text: str) -> FlagTable:
    return parse_help(text, engine="engine", version="1")


@pytest.mark.parametrize("name", HELPS)
def test_every_flag_is_found_and_the_help_is_whole(recorded: Sample, name: str) -> None:
    text = recorded(name)
    table = table_of(text)
    flags, names, program = HELPS[name]
    assert (len(table.flags), len(table.by_name), help_program(text)) == (flags, names, program)
    assert table.complete, table.incomplete_because
    assert all(flag.arity is not Arity.UNKNOWN for flag in table.flags)


SPOTS = {
    "llama.cpp/help-11434.txt": (
        Flag(names=("-c", "--ctx-size"), arity="one", metavar="N", env="LLAMA_ARG_CTX_SIZE", default="0"),
        Flag(
            names=("--ui", "--webui", "--no-ui", "--no-webui"),
            arity="none",
            env="LLAMA_ARG_UI",
            default="enabled",
        ),
        Flag(
            names=("-fa", "--flash-attn"),
            arity="one",
            choices=("on", "off", "auto"),
            env="LLAMA_ARG_FLASH_ATTN",
        ),
    ),
    "vllm/help-0.32.0.txt": (
        Flag(names=("--headless",), arity="none", default="False"),
        Flag(
            names=("--tensor-parallel-size", "-tp"), arity="one", metavar="TENSOR_PARALLEL_SIZE", default="1"
        ),
        Flag(names=("--middleware",), arity="one", metavar="MIDDLEWARE", repeatable=True),
        Flag(names=("--served-model-name",), arity="many", metavar="SERVED_MODEL_NAME", default="None"),
    ),
    "sglang/help-0.5.23.txt": (
        Flag(names=("--tp-size", "--tensor-parallel-size"), arity="one", metavar="TP_SIZE"),
        Flag(names=("--enable-metrics",), arity="none"),
        Flag(names=("--lora-paths",), arity="any", metavar="LORA_PATHS"),
    ),
    "ray/help-start-2.60.0.txt": (
        Flag(names=("--head",), arity="none"),
        Flag(names=("--log-color",), arity="one", choices=("auto", "false", "true")),
        Flag(names=("--ray-client-server-port",), arity="one", metavar="INTEGER"),
    ),
}


@pytest.mark.parametrize(("name", "flag"), [(name, flag) for name, flags in SPOTS.items() for flag in flags])
def test_what_is_said_of_a_flag(recorded: Sample, name: str, flag: Flag) -> None:
    assert table_of(recorded(name)).by_name[flag.names[0]] == flag


@pytest.mark.parametrize("name", HELPS)
@pytest.mark.parametrize("share", (0.3, 0.5, 0.9))
def test_a_help_cut_inside_of_a_line_does_not_look_whole(recorded: Sample, name: str, share: float) -> None:
    text = recorded(name)
    part = text[: int(len(text) * share)].rstrip("\n")
    assert not table_of(part).complete


def test_what_llama_cpp_lists_only_to_refuse_it(recorded: Sample) -> None:
    absent = table_of(recorded("llama.cpp/help-11434.txt")).absent_by_name
    assert absent["--draft-max"].instead[0] == "--spec-draft-n-max"
    assert "--draft-max" not in table_of(recorded("llama.cpp/help-11434.txt")).by_name
