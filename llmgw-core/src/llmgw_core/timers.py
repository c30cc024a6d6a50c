"""The only table of timers (seconds). Contradictions are refused when a configuration is loaded."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from llmgw_core.spec.value import ConfigValue


class Timers(ConfigValue):
    """How long things may take; the defaults are those of design chapter 14."""

    report: float = 5.0
    late: float = 15.0
    unreachable: float = 40.0
    lost: float = 300.0
    amnesty: float = 80.0
    lease: float = 15.0
    renew: float = 5.0
    self_demote: float = 10.0
    store_timeout: float = 2.0
    kill: float = 30.0
    drain: float = 120.0
    stable: float = 30.0
    probe_loading: float = 1.0
    liveness: float = 10.0
    pass_every: float = 1.0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        rules = {
            "renew + 2 × store_timeout must not exceed self_demote": (
                self.renew + 2 * self.store_timeout <= self.self_demote
            ),
            "self_demote must be below lease": self.self_demote < self.lease,
            "unreachable must be at least 4 reports": self.unreachable >= 4 * self.report,
            "unreachable must be at least lease + 2 reports": (
                self.unreachable >= self.lease + 2 * self.report
            ),
            "amnesty must be at least twice unreachable": self.amnesty >= 2 * self.unreachable,
            "lost must be above unreachable + kill": self.lost > self.unreachable + self.kill,
            "late must lie between report and unreachable": self.report < self.late < self.unreachable,
        }
        broken = [rule for rule, holds in rules.items() if not holds]
        if broken:
            raise ValueError("; ".join(broken))
        return self


FAST = Timers(
    report=0.5,
    late=1.5,
    unreachable=4.0,
    lost=10.0,
    amnesty=8.0,
    lease=3.0,
    renew=1.0,
    self_demote=2.0,
    store_timeout=0.5,
    kill=3.0,
    drain=5.0,
    stable=3.0,
    probe_loading=0.2,
    liveness=1.0,
    pass_every=0.2,
)
"""A profile for tests: everything about ten times faster."""
