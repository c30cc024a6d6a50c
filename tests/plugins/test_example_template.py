"""The template's own tests pass on their own, the way somebody who copied it runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).parents[2] / "template" / "llmgw-example"


@pytest.mark.timeout(300)
def test_the_template_passes_its_own_tests_outside_of_this_repository(tmp_path: Path) -> None:
    copy = tmp_path / "tests"
    copy.mkdir()
    for file in (TEMPLATE / "tests").glob("*.py"):
        (copy / file.name).write_text(file.read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(copy)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
