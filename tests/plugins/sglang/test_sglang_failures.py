"""Each recorded failure of SGLang has its class, though its exit code says that it was killed."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from llmgw_core.spec import FAILURE_CLASSES, FailurePattern
from llmgw_sglang import plugin

TAIL = 2048
FAILURES = (
    ("http_port_in_use", "port_in_use", "another process listens"),
    ("rendezvous_port_in_use", "port_in_use", "another process listens"),
    ("unknown_flag", "configuration", "does not know the flag"),
    ("bad_choice", "configuration", "does not fit the flag"),
    ("bad_value", "configuration", "does not fit the flag"),
    ("missing_model", "configuration", "not a directory on this node"),
    ("empty_directory", "configuration", "does not know the model"),
    ("cut_off_weights", "configuration", "cut off or damaged"),
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


@pytest.mark.parametrize(
    ("line", "failure"),
    (
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.", "out_of_memory"),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "out_of_memory"),
        ("RuntimeError: dist_init_port at 20001 is not available in 30 seconds.", "port_in_use"),
        ("torch.distributed.DistNetworkError: The client socket has timed out", "rendezvous"),
    ),
)
def test_a_line_of_its_sources_has_its_class(line: str, failure: str) -> None:
    found = first_match(line)
    assert found is not None
    assert found.failure == failure


def test_the_log_of_one_that_served_matches_nothing(recorded: Callable[[str], str]) -> None:
    assert first_match(recorded("healthy")) is None


def test_patterns_compile_and_say_what_to_do() -> None:
    for pattern in plugin.llmgw_engine_info().failure_patterns:
        assert re.compile(pattern.pattern).groups == 0
        assert pattern.failure in FAILURE_CLASSES
        assert pattern.hint
