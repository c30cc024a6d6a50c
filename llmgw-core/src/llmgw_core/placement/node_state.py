"""The first constraint: whether a node may be given anything at all."""

from __future__ import annotations

from llmgw_core.inventory.node_view import NodeView
from llmgw_core.spec.units import format_duration


def not_placeable(view: NodeView) -> tuple[str, str] | None:
    """Why nothing may be placed on a node: its state, and more about it; None when all is well."""
    if view.freshness != "ready":
        states = {"late": "late", "unreachable": "Unreachable", "lost": "Lost"}
        return states[view.freshness], f"silent for {format_duration(view.silence)}"
    if view.cordoned is not None:
        return "cordoned", view.cordoned or "no reason given"
    if not view.connected:
        return "not connected", "its agent has no open stream to this control plane"
    if not view.speaks or view.report is None:
        return "not heard yet", "its first report to this leader is awaited"
    if view.report.draining:
        return "draining", "its agent is leaving and stops everything on it"
    return None
