"""How each model stands, in a word and a sentence: for the CLI, the gateway's 503 and the admin API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmgw_core.catalog.model import Catalog, Model
from llmgw_core.placement.lines import in_short
from llmgw_core.placement.result import Placement, Unschedulable
from llmgw_core.reconcile.backoff import Backoff
from llmgw_core.reconcile.state import LIVE, Replica
from llmgw_core.spec.status import Failure
from llmgw_core.spec.units import format_duration


@dataclass(frozen=True)
class Standing:
    """A model's state; `reason` says why it is so, `next` what happens next."""

    model: str
    state: str
    wanted: int
    ready: int
    reason: str = ""
    next: str = ""
    failure: Failure | None = None

    @property
    def for_clients(self) -> str:
        """What those who ask for the model may know: never an engine's words, which may tell of others."""
        if self.state == "failed" and self.failure is not None:
            return f"failed ({self.failure.failure.replace('_', ' ')})"
        return self.state


def standings(
    catalog: Catalog,
    replicas: Sequence[Replica],
    placements: Mapping[str, Placement | Unschedulable],
    backoff: Mapping[str, Backoff],
    now: float,
) -> tuple[Standing, ...]:
    """One standing for each model of the catalog, in catalog order."""
    return tuple(
        _standing(
            model,
            [replica for replica in replicas if replica.model == model.name],
            placements.get(model.name),
            backoff.get(model.name),
            now,
        )
        for model in catalog.models.values()
    )


def _standing(
    model: Model,
    own: Sequence[Replica],
    placement: Placement | Unschedulable | None,
    entry: Backoff | None,
    now: float,
) -> Standing:
    wanted = model.scaling.min_replicas
    ready = sum(replica.state == "Ready" for replica in own)
    if ready >= wanted:
        state, reason, then = ("ready" if wanted else "idle"), "", ""
    else:
        state, reason, then = _lacking(own, placement, entry, now)
    failure = entry.failure if entry and ready < wanted else None
    return Standing(model.name, state, wanted, ready, reason, then, failure)


def _lacking(
    own: Sequence[Replica],
    placement: Placement | Unschedulable | None,
    entry: Backoff | None,
    now: float,
) -> tuple[str, str, str]:
    coming = [replica for replica in own if replica.state in LIVE and replica.state != "Ready"]
    if coming:
        return coming[0].state.lower(), coming[0].reason, ""
    if isinstance(placement, Unschedulable):
        return "unschedulable", in_short(placement.rejections), "placed as soon as it fits"
    if entry is not None:
        return "failed", _why(entry.failure), _again(entry, now)
    others = [replica for replica in own if replica.state not in ("Stopped", "Failed")]
    if others:
        return others[0].state.lower(), others[0].reason, ""
    return "placing", "", ""


def _why(failure: Failure) -> str:
    return f"{failure.failure}: {failure.detail}" if failure.detail else failure.failure


def _again(entry: Backoff, now: float) -> str:
    wait = format_duration(max(entry.until - now, 0.0))
    if entry.catalog is not None:
        return f"not retried until the catalog changes; looked at again in {wait}"
    return f"retry in {wait}, attempt {entry.failures + 1}"
