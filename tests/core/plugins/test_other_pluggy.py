"""The plugin host works with both ends of the declared range of pluggy.

The environment has the newest; an overlay directory, made by the scripts, holds the oldest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pluggy
import pytest

ROOT = Path(__file__).parents[3]
OLDEST = "1.6.0"
PART = ("test_loading.py", "test_refusals.py", "test_calls.py")


def overlay() -> Path:
    base = Path(os.environ.get("LLMGW_OVERLAYS") or ROOT / ".cache" / "overlays")
    directory = base / f"pluggy-{OLDEST}"
    assert (directory / "pluggy" / "__init__.py").exists(), (
        f"pluggy {OLDEST} is not in {directory}; run scripts/test once, or: "
        f"pip install --target {directory} -r requirements/pluggy-1.6.txt"
    )
    return directory


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(overlay())}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_this_environment_has_a_newer_pluggy_than_the_overlay() -> None:
    assert tuple(map(int, pluggy.__version__.split(".")[:2])) >= (1, 7)


def test_the_overlay_replaces_module_and_metadata() -> None:
    run = python(
        "-c", "import pluggy, importlib.metadata as m; print(pluggy.__version__, m.version('pluggy'))"
    )
    assert run.stdout.split() == [OLDEST, OLDEST], run.stderr


@pytest.mark.timeout(400)
def test_the_plugin_tests_pass_with_the_oldest_pluggy() -> None:
    files = [str(Path(__file__).with_name(name)) for name in PART]
    run = python("-m", "pytest", "-q", "-p", "no:cacheprovider", *files)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
