"""The control loop outlives what goes wrong in one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.control import loop
from llmgw_core.reconcile.reconcile import reconcile
from llmgw_core.simulate.world import until

Simulated = Callable[[Callable[[Any], Any]], None]


def test_a_pass_that_fails_is_an_event_and_the_next_one_runs(
    simulated: Simulated, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    faults = [ZeroDivisionError("a bug")]

    def sometimes(*args: Any, **options: Any) -> Any:
        if faults:
            raise faults.pop()
        return reconcile(*args, **options)

    async def test(rig: Any) -> None:
        monkeypatch.setattr(loop, "reconcile", sometimes)
        rig.catalog.text = rig.catalog.text.replace("small:", "tiny:")
        await rig.control.reload_catalog()
        await until(lambda: [one.model for one in rig.control.snapshot.standings] == ["tiny"], within=60)
        messages = {happened.event.kind: happened.event.message for happened in rig.control.events.recent()}
        assert messages["pass_failed"] == "ZeroDivisionError: a bug"

    simulated(test)
    assert "a pass of the control loop failed" in caplog.text
