"""Settings that every test shares."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """All of llmgw runs on asyncio (uvicorn and the store need it), so its tests do too."""
    return "asyncio"
