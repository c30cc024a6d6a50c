"""What the silence of a node means."""

from __future__ import annotations

import pytest
from llmgw_core.inventory.freshness import freshness
from llmgw_core.inventory.node_view import Freshness
from llmgw_core.timers import Timers


@pytest.mark.parametrize(
    ("silence", "verdict"),
    (
        (0.0, "ready"),
        (14.9, "ready"),
        (15.0, "late"),
        (39.9, "late"),
        (40.0, "unreachable"),
        (299.9, "unreachable"),
        (300.0, "lost"),
        (1e9, "lost"),
    ),
)
def test_silence_goes_through_four_stages(silence: float, verdict: Freshness) -> None:
    assert freshness(silence, Timers()) == verdict


@pytest.mark.parametrize("silence", (20.0, 100.0, 1000.0))
def test_an_amnesty_gives_no_verdict_beyond_late(silence: float) -> None:
    assert freshness(silence, Timers(), amnesty=True) == "late"


@pytest.mark.parametrize(
    ("silence", "verdict"), ((20.0, "late"), (100.0, "unreachable"), (1e6, "unreachable"))
)
def test_the_brake_gives_nobody_up(silence: float, verdict: Freshness) -> None:
    assert freshness(silence, Timers(), brake=True) == verdict


@pytest.mark.parametrize("cause", ({}, {"amnesty": True}, {"brake": True}))
def test_a_lost_node_stays_lost_until_it_is_heard(cause: dict[str, bool]) -> None:
    assert freshness(16.0, Timers(), was_lost=True, **cause) == "lost"
    assert freshness(1.0, Timers(), was_lost=True, **cause) == "ready"
