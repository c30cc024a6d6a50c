"""The real clock and the real randomness."""

from __future__ import annotations

import re
import time

from llmgw_core.spec import is_replica_id
from llmgw_core.system import SystemClock, SystemRand


def test_the_monotonic_clock_counts_since_boot_and_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(1000)]
    assert readings == sorted(readings)
    assert readings[0] >= time.clock_gettime(time.CLOCK_MONOTONIC) - 1


def test_the_wall_clock_is_the_systems() -> None:
    before = time.time()
    assert before <= SystemClock().wall() <= time.time()


def test_tokens_have_128_bits_and_do_not_repeat() -> None:
    tokens = [SystemRand().token() for _ in range(100)]
    assert all(re.fullmatch(r"[0-9a-f]{32}", token) for token in tokens)
    assert len(set(tokens)) == 100


def test_replica_ids_have_their_form_and_do_not_repeat() -> None:
    ids = [SystemRand().replica_id() for _ in range(100)]
    assert all(is_replica_id(replica) for replica in ids)
    assert len(set(ids)) == 100


def test_uniform_numbers_lie_between_zero_and_one() -> None:
    numbers = [SystemRand().uniform() for _ in range(1000)]
    assert min(numbers) >= 0
    assert max(numbers) < 1
    assert len(set(numbers)) > 900
