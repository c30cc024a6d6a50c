"""One admitted request, from admission to its usage row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from llmgw_core.spec import ModelEntry, UsageRow
from llmgw_core.traffic.usage import UNKNOWN, TokenCounts

Outcome = Literal["ok", "refused", "cancelled", "failed", "partial"]
CLIENT_GONE = 499
"""Status in usage rows of a request that its client left; nobody gets to see it."""


@dataclass
class Exchange:
    """What is known of a request so far; the defaults hold when it is cut short at any point."""

    id: str
    key: str
    tenant: str
    model_asked: str
    model: ModelEntry
    path: str
    streamed: bool
    started: float
    clock: Callable[[], float]
    replica: str | None = None
    first_token: float | None = None
    counts: TokenCounts = UNKNOWN
    status: int = CLIENT_GONE
    outcome: Outcome = "cancelled"

    def note_first_token(self) -> None:
        """The first piece of the answer has arrived."""
        if self.first_token is None:
            self.first_token = self.clock()

    def ended(self, status: int, outcome: Outcome) -> None:
        """How it ended."""
        self.status = status
        self.outcome = outcome

    def row(self) -> UsageRow:
        """Its usage row, which holds nothing of its content."""
        return UsageRow(
            id=self.id,
            key=self.key,
            tenant=self.tenant,
            model_asked=self.model_asked,
            model=self.model.name,
            replica=self.replica,
            path=self.path,
            streamed=self.streamed,
            prompt_tokens=self.counts.prompt,
            completion_tokens=self.counts.completion,
            cached_tokens=self.counts.cached,
            ttft=None if self.first_token is None else self.first_token - self.started,
            duration=self.clock() - self.started,
            status=self.status,
            outcome=self.outcome,
        )
