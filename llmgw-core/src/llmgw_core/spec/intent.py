"""What was decided about a shard, kept in the store before any message about it leaves."""

from __future__ import annotations

from llmgw_core.spec.identity import Epoch, Stamp
from llmgw_core.spec.shard import Shard
from llmgw_core.spec.status import AgentGoal
from llmgw_core.spec.value import Value

__all__ = ["Intent"]


class Intent(Value):
    """One shard's row: its Shard, the goal, and the stamp of the assignment that named the goal.

    `epoch` is the leadership that decided it. `number` is None until an assignment has named it; with
    goal stop it is the number of the assignment that first named the stop. `reason` is shown to people,
    `grace` is seconds from TERM to KILL.
    """

    shard: Shard
    goal: AgentGoal = "run"
    epoch: Epoch
    number: int | None = None
    reason: str = ""
    grace: float = 30.0

    @property
    def stamp(self) -> Stamp | None:
        """The assignment that named it, None while it has not been named."""
        return None if self.number is None else Stamp(epoch=self.epoch, number=self.number)
