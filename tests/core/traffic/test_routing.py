"""Where a request goes, and when it does not go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmgw_core.spec import Endpoint
from llmgw_core.traffic.admission import share, with_room
from llmgw_core.traffic.routing import choose


def endpoint(replica: str, **fields: Any) -> Endpoint:
    return Endpoint(replica=replica, model="m", url="http://e", engine="x", **fields)


A, B, C = endpoint("a"), endpoint("b"), endpoint("c", state="unknown")


def chosen(in_flight: dict[str, set[str]], exclude: tuple[str, ...] = ()) -> str | None:
    found = choose((C, B, A), in_flight, exclude)
    return None if found is None else found.replica


def test_the_one_with_the_fewest_requests_is_chosen() -> None:
    assert chosen({"a": {"1", "2"}, "b": {"3"}}) == "b"


def test_a_tie_goes_to_the_first_id() -> None:
    assert chosen({}) == "a"


def test_a_busy_ready_one_goes_before_an_idle_unknown_one() -> None:
    assert chosen({"a": {"1"}, "b": {"2"}}) == "a"
    assert chosen({}, ("a", "b")) == "c"


def test_one_on_an_unreachable_node_comes_last() -> None:
    far = endpoint("0", node_state="unreachable")
    assert choose((far, A), {"a": {"1"}}) == A


def test_with_all_excluded_there_is_none() -> None:
    assert chosen({}, ("a", "b", "c")) is None
    assert choose((), {}) is None


@given(st.permutations((A, B, C)), st.dictionaries(st.sampled_from("abc"), st.sets(st.text(max_size=2))))
def test_the_choice_does_not_depend_on_the_order(order: list[Endpoint], load: dict[str, set[str]]) -> None:
    assert choose(order, load) == choose((A, B, C), load)


@pytest.mark.parametrize(
    ("max_inflight", "gateways", "expected"), ((8, 1, 8), (8, 3, 2), (2, 5, 1), (0, 1, 1), (8, 0, 8))
)
def test_gateways_divide_what_a_replica_takes(max_inflight: int, gateways: int, expected: int) -> None:
    assert share(max_inflight, gateways) == expected


def test_full_endpoints_have_no_room() -> None:
    small = endpoint("s", max_inflight=2)
    assert with_room((small, A), {"s": {"1"}}, 1) == (small, A)
    assert with_room((small, A), {"s": {"1", "2"}}, 1) == (A,)
    assert with_room((small, A), {"s": {"1"}}, 2) == (A,)
