"""What a member imports, it declares: nothing is there only because another package happens to bring it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

MEMBERS = (
    "llmgw-core",
    "llmgw-agent",
    "plugins/llmgw-vllm",
    "plugins/llmgw-sglang",
    "plugins/llmgw-llamacpp",
    "plugins/llmgw-fabric-ib",
    "template/llmgw-example",
)
PARTS = {"pydantic_core": "pydantic"}
"""Packages that another distribution documents as part of its own interface."""


def normal(name: str) -> str:
    """A distribution's name as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(project: Mapping[str, object]) -> set[str]:
    """Names of the distributions that a project declares, extras included."""
    texts = [*_texts(project.get("dependencies"))]
    extras = project.get("optional-dependencies", {})
    assert isinstance(extras, dict)
    texts += [text for extra in extras.values() for text in _texts(extra)]
    return {normal(re.split(r"[\[<>=~!; ]", text, maxsplit=1)[0]) for text in texts}


def _texts(value: object) -> list[str]:
    return [str(text) for text in value] if isinstance(value, list) else []


def third_party(source: str) -> set[str]:
    """Top-level names that a source imports and that do not come with Python."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(str(node.module).partition(".")[0])
    return {PARTS.get(name, name) for name in found} - set(sys.stdlib_module_names)


def undeclared(sources: Mapping[str, str], own: str, known: set[str]) -> list[str]:
    """Imports of files whose distribution is not among the known ones."""
    brings = packages_distributions()
    return [
        f"{file}: {name}"
        for file, source in sources.items()
        for name in sorted(third_party(source) - {own})
        if not known & {normal(distribution) for distribution in brings.get(name, [name])}
    ]


@pytest.mark.parametrize("member", MEMBERS)
def test_every_import_is_declared(member: str, root: Path) -> None:
    project = tomllib.loads((root / member / "pyproject.toml").read_text())["project"]
    files = sorted((root / member / "src").rglob("*.py"))
    assert files
    sources = {path.name: path.read_text() for path in files}
    assert undeclared(sources, project["name"].replace("-", "_"), declared(project)) == []


def test_the_check_finds_what_is_only_brought_along() -> None:
    imports = "import json, sqlalchemy.orm, click, own.part\ndef f():\n    from yaml import safe_load"
    sources = {"a.py": imports}
    assert undeclared(sources, "own", {"click", "sqlmodel"}) == ["a.py: sqlalchemy", "a.py: yaml"]
    assert declared(
        {"dependencies": ["PyYAML>=6", "httpx2[ws]>=2"], "optional-dependencies": {"x": ["a_b"]}}
    ) == {
        "pyyaml",
        "httpx2",
        "a-b",
    }
