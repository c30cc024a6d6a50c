"""What moves the choice without forbidding anything: the operator's weights, and where a model failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw_core.spec.units import format_duration

PENALTY = 1.0
"""What a node loses on which the model failed: as much as the fullest node has over none."""


@dataclass(frozen=True)
class Steering:
    """Inputs to the choice that are no facts about nodes.

    `weights` multiply the scores of a plugin, by its name; 1 where none is given. `failed` says until when
    (seconds on the clock of `now`) a model is steered away from a node, by (model, node).
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    failed: Mapping[tuple[str, str], float] = field(default_factory=dict)
    now: float = 0.0

    def weight(self, plugin: str) -> float:
        """How much the scores of a plugin count."""
        return self.weights.get(plugin, 1.0)

    def avoided(self, model: str, node: str) -> str | None:
        """Why a model is better placed elsewhere; None when nothing speaks against the node."""
        left = self.failed.get((model, node), self.now) - self.now
        if left <= 0:
            return None
        return f"the model failed there; steered away for another {format_duration(left)}"
