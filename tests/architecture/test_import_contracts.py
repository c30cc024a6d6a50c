"""The contracts of import-linter in the root pyproject.toml hold, indirect imports included."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

VIOLATIONS = {
    "layers": ("llmgw_core/placement/__init__.py", "import llmgw_core.control"),
    "gateway": ("llmgw_core/gateway/__init__.py", "def later():\n    import sqlalchemy"),
    "agent": ("llmgw_agent/__init__.py", "import llmgw_core.store"),
    "plugins": ("llmgw_vllm/__init__.py", "import llmgw_sglang"),
    "core": ("llmgw_core/config.py", "import llmgw_agent"),
}
"""For each contract a line that breaks it, and the file that gets it."""


def lint(config: Path, sources: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run import-linter, on copies of the packages in `sources` if given."""
    program = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache", str(config)]
    path = {} if sources is None else {"PYTHONPATH": str(sources)}
    environment = os.environ | path | {"NO_COLOR": "1", "COLUMNS": "200"}
    return subprocess.run(
        program, cwd=sources or config.parent, env=environment, capture_output=True, text=True, check=False
    )


def contracts(config: Path) -> dict[str, str]:
    """Name of every contract by its id."""
    listed = tomllib.loads(config.read_text())["tool"]["importlinter"]["contracts"]
    return {contract["id"]: contract["name"] for contract in listed}


def test_every_contract_holds(root: Path) -> None:
    done = lint(root / "pyproject.toml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_contract_can_break(root: Path, product_files: tuple[Path, ...], tmp_path: Path) -> None:
    packages = {parent for path in product_files for parent in path.parents if parent.parent.name == "src"}
    for package in packages:
        shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    for file, line in VIOLATIONS.values():
        with (tmp_path / file).open("a") as source:
            source.write(f"\n{line}\n")
    done = lint(root / "pyproject.toml", tmp_path)
    named = contracts(root / "pyproject.toml")
    assert set(VIOLATIONS) == set(named)
    assert [name for name in named.values() if f"{name} BROKEN" not in done.stdout] == [], (
        done.stdout + done.stderr
    )
