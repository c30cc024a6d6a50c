"""Who may know whom, as lists of what is allowed: what is not listed is refused."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PLUGINS = ("llmgw_vllm", "llmgw_sglang", "llmgw_llamacpp", "llmgw_fabric_ib", "llmgw_example")
PURE_BELOW = {
    "spec": (),
    "engine_check": ("spec",),
    "catalog": ("spec", "engine_check"),
    "inventory": ("spec",),
    "placement": ("spec", "engine_check", "catalog", "inventory"),
    "reconcile": ("spec", "engine_check", "catalog", "inventory", "placement"),
    "node": ("spec",),
    "traffic": ("spec",),
}
"""Pure packages of llmgw_core, and the packages of llmgw_core below each."""
VALUES = ("llmgw_core.timers", "llmgw_core.ports")
"""Values and Protocols for everyone but the contract itself: they do nothing."""
NOT_FOR_THE_AGENT = (
    "control",
    "gateway",
    "store",
    "catalog",
    "inventory",
    "placement",
    "reconcile",
    "cli",
    "simulate",
)


def imported(source: str) -> set[str]:
    """Every module that a source names in an import; `from a import b` names both `a` and `a.b`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found.update(name.name for name in names)
            case ast.ImportFrom(module=module, level=0, names=names):
                found.update({str(module)} | {f"{module}.{name.name}" for name in names})
            case ast.ImportFrom(module=module, level=level, names=names):
                found.update(f"{'.' * level}{module or ''}.{name.name}" for name in names)
    return found


def strangers(source: str, family: str, allowed: tuple[str, ...]) -> list[str]:
    """Imports of packages that begin with `family` and that no entry of `allowed` covers."""
    names = sorted(name for name in imported(source) if name.startswith((family, ".")))
    return [name for name in names if not _covered(name, allowed)]


def _covered(name: str, allowed: tuple[str, ...]) -> bool:
    # `from llmgw_core import spec` names llmgw_core too, which is empty and therefore harmless.
    return name == "llmgw_core" or any(name == one or name.startswith(f"{one}.") for one in allowed)


def files_of(product_files: tuple[Path, ...], *package: str) -> list[Path]:
    """Files below a package, given as the parts of its path."""
    size = len(package)
    return [
        path
        for path in product_files
        if any(path.parts[at : at + size] == package for at in range(len(path.parts)))
    ]


def violations(files: list[Path], family: str, allowed: tuple[str, ...]) -> dict[str, list[str]]:
    """Forbidden imports by file name."""
    return {path.name: found for path in files if (found := strangers(path.read_text(), family, allowed))}


@pytest.mark.parametrize("package", PURE_BELOW)
def test_pure_packages_import_only_downwards(package: str, product_files: tuple[Path, ...]) -> None:
    files = files_of(product_files, "llmgw_core", package)
    below = tuple(f"llmgw_core.{name}" for name in (package, *PURE_BELOW[package]))
    assert files
    assert violations(files, "llmgw", below if package == "spec" else (*below, *VALUES)) == {}


@pytest.mark.parametrize("plugin", PLUGINS)
def test_plugins_import_only_the_contract(plugin: str, product_files: tuple[Path, ...]) -> None:
    files = files_of(product_files, "src", plugin)
    assert files
    assert violations(files, "llmgw", (plugin, "llmgw_core.spec")) == {}


def test_the_agent_knows_nothing_of_the_control_plane(product_files: tuple[Path, ...]) -> None:
    files = files_of(product_files, "src", "llmgw_agent")
    assert files
    found = {
        path.name: names
        for path in files
        if (
            names := [
                n
                for n in imported(path.read_text())
                if _covered(n, tuple(f"llmgw_core.{p}" for p in NOT_FOR_THE_AGENT)) and n != "llmgw_core"
            ]
        )
    }
    assert found == {}


def test_only_the_plugin_host_and_the_markers_use_pluggy(product_files: tuple[Path, ...]) -> None:
    users = {
        path.name
        for path in product_files
        if any(n.split(".")[0] == "pluggy" for n in imported(path.read_text()))
    }
    assert users
    assert {name for name in users if not name.startswith(("plugin", "hookspecs"))} == set()


@pytest.mark.parametrize(
    ("source", "stranger"),
    (
        ("import llmgw_core.control", "llmgw_core.control"),
        ("from llmgw_core.control.app import run", "llmgw_core.control.app"),
        ("from llmgw_core import control", "llmgw_core.control"),
        ("def f():\n    import llmgw_core.ports", "llmgw_core.ports"),
        ("from ..control import app", "..control.app"),
        ("from llmgw_core.specification import x", "llmgw_core.specification"),
    ),
)
def test_the_import_check_finds(source: str, stranger: str) -> None:
    assert stranger in strangers(source, "llmgw", ("llmgw_core.spec",))


def test_the_import_check_allows_what_is_listed() -> None:
    source = (
        "import json, llmgw_core.spec.wire\nfrom llmgw_core.spec import Shard\nfrom llmgw_core import spec"
    )
    assert strangers(source, "llmgw", ("llmgw_core.spec",)) == []
