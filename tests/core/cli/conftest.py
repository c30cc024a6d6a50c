"""An `up` with fake children, and a way to run the program."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def _rig_module() -> ModuleType:
    # Tests are no package (import-mode=importlib), so a file beside them is loaded by its path.
    name = "llmgw_tests_up_rig"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("up_rig.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Any]:
    made = _rig_module().Rig(tmp_path)
    yield made
    made.close()


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool], str], None]:
    found: Callable[[Callable[[], bool], str], None] = _rig_module().wait_for
    return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `llmgw …` as its own process, with a home of its own."""

    def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LLMGW_")}
        return subprocess.run(
            [sys.executable, "-m", "llmgw_core", *arguments],
            env={**kept, "HOME": str(tmp_path / "home"), **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return call
