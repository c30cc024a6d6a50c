"""Each wheel works in an environment that holds only what it declares."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Built, Environment

# Builds and installs for real, beside whatever else the machine does.
pytestmark = [pytest.mark.xdist_group("packaging"), pytest.mark.timeout(600)]

ENGINES = ("llmgw-vllm", "llmgw-sglang", "llmgw-llamacpp", "llmgw-fabric-ib", "llmgw-example")
IMPORT_ALL = """
import importlib, pkgutil
root = importlib.import_module({package!r})
for found in pkgutil.walk_packages(root.__path__, root.__name__ + "."):
    # __main__ runs the program, and alembic runs env.py itself, inside a migration.
    if not found.name.endswith(("__main__", ".migrations.env")):
        importlib.import_module(found.name)
"""
OPEN_STORE = """
import anyio, tempfile
from pathlib import Path
from llmgw_core.store.database import open_store
from llmgw_core.system import SystemClock, SystemRand

async def main():
    with tempfile.TemporaryDirectory() as directory:
        async with open_store(Path(directory) / "llmgw.sqlite3", SystemClock(), SystemRand()) as store:
            print((await store.facts()).cluster)

anyio.run(main)
"""


def test_core_alone_imports_every_module(
    dist: Callable[[str], Built], empty_environment: Environment
) -> None:
    empty_environment.install(dist("llmgw-core"))
    assert empty_environment.check() == ""
    done = empty_environment.python(IMPORT_ALL.format(package="llmgw_core"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ("llmgw-agent", *ENGINES))
def test_member_with_core_imports_every_module(
    name: str, dist: Callable[[str], Built], empty_environment: Environment
) -> None:
    empty_environment.install(dist("llmgw-core"), dist(name))
    assert empty_environment.check() == ""
    done = empty_environment.python(IMPORT_ALL.format(package=name.replace("-", "_")))
    assert done.returncode == 0, done.stderr


def test_core_and_one_plugin_are_a_working_program(
    dist: Callable[[str], Built], empty_environment: Environment
) -> None:
    empty_environment.install(dist("llmgw-core"), dist("llmgw-vllm"))
    help_text = empty_environment.program("llmgw", "--help")
    assert help_text.returncode == 0, help_text.stderr
    assert "server" in help_text.stdout
    version = empty_environment.program("llmgw", "version")
    assert version.returncode == 0, version.stderr
    assert "llmgw-vllm" in version.stdout
    plugins = empty_environment.program("llmgw", "plugins")
    assert "vllm" in plugins.stdout, plugins.stderr
    store = empty_environment.python(OPEN_STORE)
    assert store.returncode == 0, store.stderr
    assert store.stdout.strip()


def test_an_undeclared_dependency_would_be_missing(
    dist: Callable[[str], Built], empty_environment: Environment
) -> None:
    metadata.distribution("sqlalchemy")  # is installed here, and must not shine through
    empty_environment.install(dist("llmgw-core"), leave_out="sqlalchemy")
    assert "sqlalchemy" in empty_environment.check().lower()
    store = empty_environment.python(OPEN_STORE)
    assert "No module named 'sqlalchemy'" in store.stderr


def test_nothing_else_of_this_environment_shines_through(
    dist: Callable[[str], Built], empty_environment: Environment
) -> None:
    empty_environment.install(dist("llmgw-core"))
    for module in ("pytest", "hypothesis", "hatchling", "llmgw_agent"):
        assert f"No module named '{module}'" in empty_environment.python(f"import {module}").stderr
