"""When a model that failed may be tried again: kept on the model, never on the replica that is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from llmgw_core.spec.status import Failure

FIRST = 1.0
LONGEST = 300.0
CONFIGURATION_AGAIN = 30 * 60.0
"""A log tail can be misread, so even a configuration error is tried again after so many seconds."""
PORT_RETRIES = 3
STEERED_AWAY = 600.0
"""For so many seconds another node is preferred to one on which the model failed."""


@dataclass(frozen=True)
class Backoff:
    """How often a model failed in a row, why, and until when (monotonic seconds) it is left alone.

    `catalog` is set for a configuration error: another catalog revision ends the wait. `failed_on` says
    until when each node on which it failed is put after all others.
    """

    failures: int
    until: float
    failure: Failure
    replica: str
    catalog: str | None = None
    failed_on: Mapping[str, float] = field(default_factory=dict)

    def holds(self, now: float, catalog: str) -> bool:
        """Whether the model must not be placed now."""
        return now < self.until and (self.catalog is None or self.catalog == catalog)


def after_failure(
    before: Backoff | None,
    failure: Failure,
    *,
    replica: str,
    nodes: Iterable[str] = (),
    now: float,
    jitter: float,
    catalog: str,
) -> Backoff:
    """The backoff after one more failure, on `nodes`. `jitter` in [0, 1) spreads the delay by ±20 %."""
    failures = before.failures + 1 if before else 1
    remembered = {node: until for node, until in before.failed_on.items() if until > now} if before else {}
    if failure.failure == "port_in_use" and failures <= PORT_RETRIES:
        return Backoff(failures, now, failure, replica, failed_on=remembered)
    failed_on = remembered | dict.fromkeys(nodes, now + STEERED_AWAY)
    if failure.failure == "configuration":
        return Backoff(failures, now + CONFIGURATION_AGAIN, failure, replica, catalog, failed_on)
    delay = min(FIRST * 2.0 ** min(failures - 1, 16), LONGEST)
    return Backoff(failures, now + delay * (0.8 + 0.4 * jitter), failure, replica, failed_on=failed_on)
