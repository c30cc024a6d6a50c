"""Help texts: our own of every style, and those that real engines printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from llmgw_core.spec import FlagTable, parse_help

SAMPLES = Path(__file__).with_name("samples")
RECORDED = Path(__file__).resolve().parents[4] / "shared/engines"

Sample = Callable[[str], str]


@pytest.fixture(scope="session")
def sample() -> Sample:
    """The text of one of our own samples."""
    return lambda name: (SAMPLES / f"{name}.txt").read_text()


@pytest.fixture(scope="session")
def toy(sample: Sample) -> Callable[[str], FlagTable]:
    """The table of one of our own samples."""
    return lambda name: parse_help(sample(name), engine="toy", version="1.0")


@pytest.fixture(scope="session")
def recorded() -> Sample:
    """What a real program printed; skips where the recordings are not beside the repository."""

    def read(name: str) -> str:
        if not (RECORDED / name).is_file():
            pytest.skip("the recorded help texts lie beside the repository, and are not here")
        return (RECORDED / name).read_text()

    return read
