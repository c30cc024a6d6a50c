"""Settings that every test shares."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# The same examples on every run, so that a red test means a change; `explore` looks for new ones.
# No deadline per example: how long one takes says more about the machine than about the code.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("LLMGW_HYPOTHESIS", "steady"))


@pytest.fixture
def anyio_backend() -> str:
    """All of llmgw runs on asyncio (uvicorn and the store need it), so its tests do too."""
    return "asyncio"
