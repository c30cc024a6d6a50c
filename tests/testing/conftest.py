"""Plugins for the kit to look at: a good one, and copies of it with one defect each."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Install = Callable[[str, Mapping[str, str], str], ModuleType]


def defects_of(text: str) -> list[Any]:
    """For each defect the rule that has to name it, and how a good plugin's source then ends."""
    pieces = re.split(r"^# (test_\w+): (.+)$", text, flags=re.MULTILINE)[1:]
    triples = zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)
    return [pytest.param(rule, source, id=f"{rule}-{what}") for rule, what, source in triples]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package from the texts of its files, as a distribution with one entry point."""
    made: list[str] = []

    def install(package: str, files: Mapping[str, str], entry_point: str) -> ModuleType:
        made.append(package)
        for name, text in files.items():
            path = tmp_path / package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "cupy.py").touch()
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        name = package.replace("_", "-")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[llmgw]\n{entry_point} = {package}\n")
        monkeypatch.syspath_prepend(tmp_path)
        return importlib.import_module(package)

    yield install
    for name in (*made, "cupy"):
        sys.modules.pop(name, None)
