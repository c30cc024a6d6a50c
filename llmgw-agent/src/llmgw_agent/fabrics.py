"""What the operator says of the adapters in agent.yaml, laid over what plugins found: it always wins."""

from __future__ import annotations

import re
from collections.abc import Iterable

from llmgw_core.config import AgentConfig
from llmgw_core.spec import FabricPort, Reason

__all__ = ["with_operators_word"]

_ROLE = "not_a_rail"
"""The only reason that is an opinion: a label overrules it, but makes no port of one that is down."""
_ADAPTER = re.compile(r"[\w.-]+(?::\d+)?", re.ASCII)


def with_operators_word(
    ports: tuple[FabricPort, ...], config: AgentConfig
) -> tuple[tuple[FabricPort, ...], tuple[str, ...]]:
    """The ports with `fabrics` and `exclude_hcas` applied, and a sentence for each name that meets none."""
    labels = {entry: label for label, entries in config.fabrics.items() for entry in entries}
    problems = (
        *_unmet("fabrics", labels, ports),
        *_unmet("exclude_hcas", config.exclude_hcas, ports),
    )
    labelled = (_labelled(port, _label(port, labels)) for port in ports)
    return tuple(_without_excluded(port, config.exclude_hcas) for port in labelled), problems


def _label(port: FabricPort, labels: dict[str, str]) -> str | None:
    """The label of the most exact entry: of the port, of its adapter, of the fabric that was found."""
    return next((labels[name] for name in _names(port) if name in labels), None)


def _names(port: FabricPort) -> tuple[str, ...]:
    own = (f"{port.device}:{port.port}", port.device)
    return (*own, port.fabric) if port.fabric else own


def _labelled(port: FabricPort, label: str | None) -> FabricPort:
    if label is None:
        return port
    reasons = tuple(reason for reason in port.reasons if reason.code != _ROLE)
    found = {"fabric": label, "fabric_strength": "label", "reasons": reasons}
    return port.model_copy(update={**found, "usable": port.active and not reasons})


def _without_excluded(port: FabricPort, excluded: tuple[str, ...]) -> FabricPort:
    if not set(_names(port)[:2]) & set(excluded):
        return port
    reasons = (*port.reasons, Reason(code="excluded", text="excluded in the agent's config"))
    return port.model_copy(update={"usable": False, "reasons": reasons})


def _unmet(key: str, entries: Iterable[str], ports: tuple[FabricPort, ...]) -> Iterable[str]:
    """A mistyped name would leave an adapter in use that was meant to be out.

    Keys of found fabrics are left alone: one file may serve nodes of different fabrics.
    """
    known = {name for port in ports for name in _names(port)}
    for entry in entries:
        if entry not in known and _ADAPTER.fullmatch(entry):
            yield f"{key}: this node has no adapter {entry}; `llmgw agent inventory` lists those it has"
