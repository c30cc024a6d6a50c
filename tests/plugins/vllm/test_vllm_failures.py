"""What vLLM 0.32.0 printed when it could not start, and the class that is made of it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from llmgw_core.spec import FailurePattern
from llmgw_vllm import plugin

PATTERNS = plugin.llmgw_engine_info().failure_patterns


def judged(tail: str) -> FailurePattern | None:
    return next((one for one in PATTERNS if re.search(one.pattern, tail)), None)


@pytest.mark.parametrize(
    ("name", "failure", "hint"),
    (
        ("flag", "configuration", "does not know the flag"),
        ("choice", "configuration", "value does not fit"),
        ("value", "configuration", "value does not fit"),
        ("missing", "configuration", "not a directory with a model"),
        ("empty", "configuration", "not a directory with a model"),
        ("max-model-len", "configuration", "lower max_model_len"),
        ("port", "port_in_use", "ss -ltnp"),
        ("weights", "configuration", "cut off or damaged"),
        ("no-guard", "agent", "must not run without it"),
    ),
)
def test_a_failed_start_has_its_class(
    recorded: Callable[[str], str], name: str, failure: str, hint: str
) -> None:
    found = judged(recorded(name))
    assert found is not None
    assert (found.failure, hint in found.hint) == (failure, True)


def test_a_failure_of_the_engines_process_is_seen_even_where_only_the_last_lines_are(
    recorded: Callable[[str], str],
) -> None:
    found = judged(recorded("weights")[-2048:])
    assert found is not None
    assert (found.failure, "further up" in found.hint) == ("crash", True)


def test_a_log_that_says_nothing_is_not_judged() -> None:
    assert judged("INFO 11-29 20:00:00 [api_server.py:1] Application startup complete.\n") is None
