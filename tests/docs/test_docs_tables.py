"""Tables of the documentation are complete and true: configuration keys, states, messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

import pytest
from llmgw_core.config import AgentConfig, GatewayConfig, LogConfig, ServerConfig
from llmgw_core.control.loop import node_state
from llmgw_core.inventory.node_view import Freshness, NodeView
from llmgw_core.reconcile.state import ReplicaState
from llmgw_core.spec import AgentMessage
from llmgw_core.timers import Timers
from pydantic import BaseModel
from pydantic.fields import FieldInfo

DOCS = Path(__file__).parents[2] / "docs"
SHARED = ("log", "timers")
"""Groups that several files have; they are documented once."""
"""Groups that every file has; they have tables of their own."""


def table_after(page: str, heading: str) -> list[tuple[str, ...]]:
    """The cells of the first table below a heading, without its head; marks of code are taken off."""
    _, found, rest = (DOCS / page).read_text().partition(f"\n{heading}\n")
    assert found, f"{page} has no heading {heading!r}"
    rows = re.search(r"(?:^\|.*\n)+", rest, re.MULTILINE)
    assert rows
    return [
        tuple(cell.strip().strip("`") for cell in line.strip("|").split(" | "))
        for line in rows[0].splitlines()[2:]
    ]


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key with its default as the tables write it."""
    for name, field in model.model_fields.items():
        if name in SHARED:
            continue
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys_of(kind, f"{prefix}{name}.")
        else:
            yield prefix + name, _shown(field)


def _shown(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.15g}"
    return "{}" if value == {} else "[]" if value == () else str(value)


CONFIGURATIONS: Mapping[str, Mapping[str, str]] = {
    "### server.yaml": dict(keys_of(ServerConfig)),
    "### gateway.yaml": dict(keys_of(GatewayConfig)),
    "### agent.yaml": dict(keys_of(AgentConfig)),
    "### `log`, in every file": dict(keys_of(LogConfig, "log.")),
    "### `timers`, in server.yaml and agent.yaml": dict(keys_of(Timers, "timers.")),
}


@pytest.mark.parametrize("heading", CONFIGURATIONS)
def test_every_configuration_key_is_documented_with_its_default(heading: str) -> None:
    documented = {key: default for key, default, _ in table_after("operating.md", heading)}
    assert documented == CONFIGURATIONS[heading]


def test_every_file_has_the_shared_groups() -> None:
    for model in (ServerConfig, AgentConfig):
        assert set(SHARED) <= set(model.model_fields)
    assert "log" in GatewayConfig.model_fields


def test_every_state_of_a_replica_is_documented() -> None:
    documented = [state for state, _ in table_after("concepts.md", "## The life of a replica")]
    assert sorted(documented) == sorted(get_args(ReplicaState))


def test_the_states_of_a_node_are_documented_with_the_timers_that_they_have() -> None:
    timers = Timers()
    limits = {"ready": timers.late, "late": timers.unreachable, "unreachable": timers.lost}
    documented = {row[0]: row[1] for row in table_after("concepts.md", "## How a node stands")}
    others = (NodeView("new"), NodeView("left", speaks=True))
    assert set(documented) == {*map(node_state, others), *get_args(Freshness)}
    assert {state: documented[state] for state in limits} == {
        state: f"under {limit:g} s" for state, limit in limits.items()
    }


def test_every_message_of_the_agent_stream_is_documented() -> None:
    rows = table_after("architecture.md", "## The agent stream")
    documented = [name.strip("`") for row in rows for name in row[0].split(", ")]
    types = [message.model_fields["type"].default for message in get_args(AgentMessage)]
    assert sorted(documented) == sorted(types)
