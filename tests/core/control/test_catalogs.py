"""Which catalog is true: a bad one changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.spec import CatalogError

Simulated = Callable[[Callable[[Any], Any]], None]


def test_a_broken_catalog_is_refused_and_the_last_good_one_stays(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        good = await rig.control.reload_catalog()
        rig.catalog.text = "version: 1\nmodels: [unclosed\n"
        with pytest.raises(CatalogError):
            await rig.control.reload_catalog()
        rig.catalog.text = rig.catalog.text.replace("[unclosed", "{}")
        assert await rig.control.reload_catalog() != good

    simulated(test)


def test_the_same_text_is_the_same_revision(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        assert await rig.control.reload_catalog() == await rig.control.reload_catalog()

    simulated(test)
