"""The hooks of plugins: recorded with their arguments, since published plugins rely on each of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args

import pytest
from llmgw_core.spec import (
    HOOK_API,
    AgentGoal,
    AgentState,
    ByeReason,
    Capability,
    Command,
    Endpoint,
    FabricPort,
    FailureClass,
    ModelKind,
    PluginInfo,
    ShardGoal,
    Support,
    UsageRow,
    Value,
    hookspecs,
)

HOOKS = {name: getattr(hookspecs, name) for name in hookspecs.__all__ if name.startswith("llmgw_")}


def signature_of(hook: Callable[..., object]) -> dict[str, Any]:
    signature = inspect.signature(hook)
    arguments = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    return {"arguments": arguments, "returns": signature.return_annotation}


def test_recorded_hooks_are_unchanged_and_new_ones_are_recorded(golden_file: Callable[[str], Any]) -> None:
    """Within one HOOK_API a hook or an argument may be added, here and in the file; nothing is edited."""
    golden = golden_file("hooks.json")
    assert golden["HOOK_API"] == HOOK_API
    assert {name: signature_of(hook) for name, hook in HOOKS.items()} == golden["hooks"]


def test_no_hook_has_a_default_or_a_special_argument() -> None:
    for hook in HOOKS.values():
        for parameter in inspect.signature(hook).parameters.values():
            assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            assert parameter.default is inspect.Parameter.empty


def field(kind: type[Value], name: str) -> tuple[str, ...]:
    return get_args(kind.model_fields[name].annotation)


NAMES: dict[str, tuple[str, ...]] = {
    "AgentState": get_args(AgentState),
    "AgentGoal": get_args(AgentGoal),
    "ShardGoal": get_args(ShardGoal),
    "FailureClass": get_args(FailureClass),
    "ByeReason": get_args(ByeReason),
    "ModelKind": get_args(ModelKind),
    "Capability": tuple(map(str, Capability)),
    "Support": tuple(map(str, Support)),
    "PluginInfo.kind": field(PluginInfo, "kind"),
    "UsageRow.outcome": field(UsageRow, "outcome"),
    "Endpoint.state": field(Endpoint, "state"),
    "Endpoint.node_state": field(Endpoint, "node_state"),
    "FabricPort.link_layer": field(FabricPort, "link_layer"),
    "Command.stop_signal": field(Command, "stop_signal"),
}


@pytest.mark.parametrize("what", NAMES)
def test_recorded_names_are_unchanged_and_new_ones_are_recorded(
    golden_file: Callable[[str], Any], what: str
) -> None:
    """States and classes travel as text and are stored; a renamed one is unknown to every older peer."""
    assert list(NAMES[what]) == golden_file("names.json")[what]


def test_no_recorded_list_of_names_goes_unchecked(golden_file: Callable[[str], Any]) -> None:
    assert set(golden_file("names.json")) == set(NAMES)
