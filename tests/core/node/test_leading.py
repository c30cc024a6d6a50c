"""Rule 4: which leader an agent obeys."""

from __future__ import annotations

from typing import Any

import pytest
from llmgw_core.node.assignment import take_cluster
from llmgw_core.node.state import NodeState
from llmgw_core.spec import NO_EPOCH, Epoch


def epoch(number: int, control: str) -> Epoch:
    return Epoch(number=number, control=control)


@pytest.mark.parametrize(
    ("heard", "lead", "taken"),
    (
        (NO_EPOCH, epoch(1, "A"), True),
        (epoch(3, "A"), epoch(4, "B"), True),
        (epoch(3, "A"), epoch(3, "A"), True),
        (epoch(3, "A"), epoch(3, "B"), False),
        (epoch(3, "A"), epoch(2, "A"), False),
        (epoch(3, ""), epoch(3, "B"), True),
        (epoch(3, ""), epoch(2, "B"), False),
    ),
    ids=[
        "first", "higher", "same-again", "same-number-of-another", "lower",
        "process-unknown-after-lost-state", "lower-after-lost-state",
    ],
)  # fmt: skip
def test_a_lead_is_taken_when_it_is_higher_or_the_same(
    new_agent: Any, heard: Epoch, lead: Epoch, taken: bool
) -> None:
    new_agent.state = NodeState(heard=heard, cluster="c1")
    assert new_agent.lead(lead) is taken
    assert new_agent.state.heard == (lead if taken else heard)


def test_a_leader_of_another_cluster_is_refused_however_high_its_epoch(agent: Any) -> None:
    assert not agent.lead(epoch(99, "X"), cluster="c2")
    assert agent.state.cluster == "c1"


def test_a_node_joins_the_first_cluster_that_welcomes_it_and_no_other() -> None:
    joined = take_cluster(NodeState(), "c1")
    assert joined is not None
    assert joined.cluster == "c1"
    assert take_cluster(joined, "c1") is joined
    assert take_cluster(joined, "c2") is None
