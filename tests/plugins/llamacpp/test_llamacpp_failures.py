"""Each recorded failure of llama.cpp has its class, also when only the last 2 KiB of the log are left."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from llmgw_core.spec import FAILURE_CLASSES, FailurePattern
from llmgw_llamacpp import plugin

TAIL = 2048
FAILURES = (
    ("missing_file", "configuration", "not a file on this node"),
    ("unreadable_file", "configuration", "permissions"),
    ("not_gguf", "configuration", "not a GGUF file"),
    ("empty_file", "configuration", "not a GGUF file"),
    ("truncated", "configuration", "cut off or damaged"),
    ("header_cut", "configuration", "cut off or damaged"),
    ("missing_key", "configuration", "cannot load this file"),
    ("unknown_architecture", "configuration", "too old for the model"),
    ("newer_gguf_version", "configuration", "too old for the model"),
    ("unknown_flag", "configuration", "does not know the flag"),
    ("bad_value", "configuration", "does not fit the flag"),
    ("port_in_use", "port_in_use", "another process listens"),
    ("out_of_memory", "out_of_memory", "more memory"),
)


def first_match(log: str) -> FailurePattern | None:
    """The pattern that decides about a log."""
    patterns = plugin.llmgw_engine_info().failure_patterns
    return next((one for one in patterns if re.search(one.pattern, log)), None)


@pytest.mark.parametrize(("name", "failure", "hint"), FAILURES)
def test_a_recorded_failure_has_its_class(
    recorded: Callable[[str], str], name: str, failure: str, hint: str
) -> None:
    found = first_match(recorded(name)[-TAIL:])
    assert found is not None
    assert found.failure == failure
    assert hint in found.hint


def test_a_healthy_log_matches_nothing(recorded: Callable[[str], str]) -> None:
    assert first_match(recorded("healthy")) is None


def test_patterns_compile_and_say_what_to_do() -> None:
    for pattern in plugin.llmgw_engine_info().failure_patterns:
        assert re.compile(pattern.pattern).groups == 0
        assert pattern.failure in FAILURE_CLASSES
        assert pattern.hint


@pytest.mark.parametrize(
    ("text", "version"),
    (
        ("version: 0.6.0-dev (build 11434, commit unknown)\nbuilt with GNU 12.2.0 for Linux x86_64", "11434"),
        ("version: 4567 (abcdef12)\nbuilt with cc (Debian 12.2.0-14) 12.2.0 for x86_64-linux-gnu", "4567"),
        ("version: 11549 (xllamacpp 2026.10.11549, from the package version)", "11549"),
        ("ggml_cuda_init: found 1 CUDA devices:\nversion: 4567 (abcdef12)", "4567"),
    ),
)
def test_the_build_is_read_from_every_form_of_version(text: str, version: str) -> None:
    found = re.search(plugin.llmgw_engine_info().binary.version_pattern, text)
    assert found is not None
    assert found[1] == version


def test_a_program_that_is_not_llama_server_has_no_version() -> None:
    pattern = plugin.llmgw_engine_info().binary.version_pattern
    assert re.search(pattern, "llama-server 3.2, a llama farm") is None
    assert re.search(pattern, "version: 0.6.0") is None
