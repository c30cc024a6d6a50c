"""What one pass decides: changes of intents, records to dismiss, backoffs, and what to tell people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw_core.inventory.inventory import Inventory
from llmgw_core.placement.result import Placement, Unschedulable
from llmgw_core.reconcile.backoff import Backoff
from llmgw_core.reconcile.state import Replica
from llmgw_core.spec.intent import Intent


@dataclass(frozen=True)
class Event:
    """Something that happened, for people: `subject` is a replica, model or node."""

    kind: str
    subject: str
    message: str


@dataclass(frozen=True)
class Decision:
    """The outcome of one pass.

    `dismiss` maps a node to the terminal records that it may forget. `backoff` is the whole new table.
    `placements` has the last answer of placement for each model that lacks a replica. `more` asks for
    another pass at once: one replica is placed per pass, because a placement depends on the one before.
    `inventory` is what it was decided on, for the next pass to start from.
    """

    put: tuple[Intent, ...] = ()
    drop: tuple[str, ...] = ()
    dismiss: Mapping[str, frozenset[str]] = field(default_factory=dict)
    backoff: Mapping[str, Backoff] = field(default_factory=dict)
    replicas: tuple[Replica, ...] = ()
    placements: Mapping[str, Placement | Unschedulable] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    more: bool = False
    inventory: Inventory = field(default_factory=Inventory, repr=False, compare=False)
