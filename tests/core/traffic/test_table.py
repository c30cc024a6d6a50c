"""Which table a gateway follows, and what it keeps when a control plane does not know everything yet."""

from __future__ import annotations

from typing import Any

import pytest
from llmgw_core.spec import Endpoint, Epoch, ModelEntry, Table
from llmgw_core.traffic.table import EndpointTable, merge

PATH = "/v1/chat/completions"


def endpoint(replica: str, model: str = "m", **fields: Any) -> Endpoint:
    return Endpoint(replica=replica, model=model, url="http://e", engine="x", paths=(PATH,), **fields)


def message(
    number: int,
    version: int,
    *replicas: str | Endpoint,
    control: str = "c1",
    complete: bool = True,
    **fields: Any,
) -> Table:
    return Table(
        epoch=Epoch(number=number, control=control),
        version=version,
        complete=complete,
        models=fields.pop("models", (ModelEntry(name="m", aliases=("also-m",)),)),
        endpoints=tuple(endpoint(each) if isinstance(each, str) else each for each in replicas),
        **fields,
    )


def after(*messages: Table) -> EndpointTable:
    table = EndpointTable()
    for each in messages:
        table = merge(table, each)
    return table


def states(table: EndpointTable) -> dict[str, str]:
    return {replica: each.state for replica, each in table.endpoints.items()}


def test_a_newer_version_replaces_the_table() -> None:
    assert states(after(message(1, 1, "a"), message(1, 2, "b"))) == {"b": "ready"}


@pytest.mark.parametrize(
    "late",
    (
        message(2, 4, "b"),  # an older version
        message(2, 5, "b"),  # the same once more
        message(1, 9, "b"),  # an older epoch
        message(2, 9, "b", control="c2"),  # one number of two processes is two epochs
    ),
)
def test_what_is_not_above_is_not_followed(late: Table) -> None:
    current = after(message(2, 5, "a"))
    assert merge(current, late) is current


def test_a_higher_epoch_is_followed_whatever_its_version_and_process() -> None:
    table = after(message(2, 5, "a"), message(3, 1, "b", control="c2"))
    assert (states(table), table.epoch.control, table.version) == ({"b": "ready"}, "c2", 1)


def test_an_incomplete_table_adds_and_never_removes() -> None:
    table = after(
        message(1, 1, "a", endpoint("d", state="draining"), endpoint("u", state="unknown")),
        message(2, 1, "b", complete=False, models=()),
    )
    assert states(table) == {"a": "unknown", "d": "draining", "u": "unknown", "b": "ready"}
    assert table.resolve("m") is not None


def test_what_an_incomplete_table_lists_is_as_it_says() -> None:
    table = after(message(1, 1, "a"), message(2, 1, endpoint("a", state="draining"), complete=False))
    assert states(table) == {"a": "draining"}


def test_a_complete_table_removes_what_was_kept() -> None:
    table = after(message(1, 1, "a"), message(2, 1, complete=False), message(2, 2, "b"))
    assert states(table) == {"b": "ready"}


def test_a_model_is_found_by_name_and_by_alias() -> None:
    table = after(message(1, 1))
    for name in ("m", "also-m"):
        found = table.resolve(name)
        assert found is not None
        assert found.name == "m"
    assert table.resolve("") is None
    assert table.resolve("nobody") is None


def test_a_name_wins_over_an_alias() -> None:
    models = (ModelEntry(name="m"), ModelEntry(name="z", aliases=("m",)))
    found = after(message(1, 1, models=models)).resolve("m")
    assert found is not None
    assert found.name == "m"


@pytest.mark.parametrize(
    ("fields", "routable"),
    (
        ({}, True),
        ({"state": "unknown"}, True),
        ({"node_state": "late"}, True),
        ({"node_state": "unreachable"}, True),
        ({"state": "draining"}, False),
        ({"node_state": "lost"}, False),
    ),
)
def test_draining_and_lost_replicas_are_no_candidates(fields: dict[str, Any], routable: bool) -> None:
    table = after(message(1, 1, endpoint("a", **fields)))
    assert bool(table.candidates("m", PATH)) is routable
    assert bool(table.of_model("m")) is routable


def test_candidates_are_those_of_the_model_that_serve_the_path() -> None:
    table = after(message(1, 1, "b", "a", endpoint("c", model="other")))
    assert [each.replica for each in table.candidates("m", PATH)] == ["a", "b"]
    assert table.candidates("m", "/v1/embeddings") == ()


def test_there_is_always_at_least_this_gateway() -> None:
    assert after(message(1, 1, gateways_live=0)).gateways_live == 1
