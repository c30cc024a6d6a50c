"""The source files that the architecture rules are about."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _tracked(pattern: str) -> tuple[Path, ...]:
    """Files that are part of the project, new ones that git does not ignore included."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", pattern]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = sorted({ROOT / name for name in names.split("\0") if name})
    return tuple(path for path in paths if path.is_file())


@pytest.fixture(scope="session")
def root() -> Path:
    """The workspace's root."""
    return ROOT


@pytest.fixture(scope="session")
def tracked_files() -> tuple[Path, ...]:
    """Every file of the project."""
    return _tracked("*")


@pytest.fixture(scope="session")
def product_files(tracked_files: tuple[Path, ...]) -> tuple[Path, ...]:
    """Python files that are shipped: those under a member's `src`."""
    return tuple(path for path in tracked_files if path.suffix == ".py" and "src" in path.parts)


@pytest.fixture(scope="session")
def test_files(tracked_files: tuple[Path, ...]) -> tuple[Path, ...]:
    """Python files of the tests, the members' own included."""
    return tuple(path for path in tracked_files if path.suffix == ".py" and "tests" in path.parts)
