"""Decisions are pure: no I/O, clock, randomness and nothing asynchronous in the packages that decide."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PURE = ("spec", "engine_check", "catalog", "inventory", "placement", "reconcile", "node", "traffic")
WORLD = frozenset(
    (
        *("asyncio", "anyio", "concurrent", "multiprocessing", "select", "selectors", "signal", "subprocess"),
        *(
            "glob",
            "io",
            "os",
            "pathlib",
            "shutil",
            "tempfile",
            "fcntl",
            "ctypes",
            "importlib",
            "resource",
            "sys",
        ),
        *("http", "httpx", "httpx2", "socket", "socketserver", "ssl", "starlette", "urllib", "uvicorn"),
        *("logging", "structlog", "sqlite3", "sqlalchemy", "sqlmodel", "websockets", "threading"),
        *("random", "secrets", "time"),
    )
)
"""Modules that reach the world: a file, a process, a socket, a clock, randomness, the environment."""
HARMLESS = {"pathlib": frozenset({"PurePath", "PurePosixPath"})}
"""What may be taken from such a module all the same."""
WORLD_NAMES = {
    "uuid": frozenset({"uuid1", "uuid4", "getnode"}),
    "datetime": frozenset({"now", "utcnow", "today"}),
    "date": frozenset({"today"}),
}
"""Names of other modules and classes that ask a clock or a source of randomness."""
WORLD_CALLS = frozenset({"open", "input", "print", "exec", "eval", "__import__", "breakpoint"})


def impurities(source: str) -> list[str]:
    """What in a module's source reaches the world."""
    return [found for node in ast.walk(ast.parse(source)) for found in _impurity(node)]


def _impurity(node: ast.AST) -> list[str]:
    match node:
        case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
            return ["asynchronous"]
        case ast.Import(names=names):
            return [f"import {name.name}" for name in names if _is_world(name.name)]
        case ast.ImportFrom(module=str(module), names=names):
            return [f"from {module} import {name.name}" for name in names if _is_world(module, name.name)]
        case ast.Call(func=ast.Name(id=name)) if name in WORLD_CALLS:
            return [f"{name}()"]
        case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
            return [f"{owner}.{name}"] if name in WORLD_NAMES.get(owner, frozenset()) else []
        case _:
            return []


def _is_world(module: str, name: str = "") -> bool:
    if name in WORLD_NAMES.get(module, frozenset()):
        return True
    return module.partition(".")[0] in WORLD and name not in HARMLESS.get(module, frozenset())


@pytest.mark.parametrize("package", PURE)
def test_deciding_packages_do_not_reach_the_world(package: str, product_files: tuple[Path, ...]) -> None:
    files = [
        path
        for path in product_files
        if ("llmgw_core", package) in zip(path.parts, path.parts[1:], strict=False)
    ]
    assert files
    found = {path.name: impure for path in files if (impure := impurities(path.read_text()))}
    assert found == {}


@pytest.mark.parametrize(
    "source",
    (
        "async def decide(): ...",
        "import os",
        "import os.path as p",
        "from pathlib import Path",
        "from time import monotonic",
        "def later():\n    import random",
        "import socket, json",
        "from subprocess import run",
        "import secrets",
        "x = open('f')",
        "from datetime import datetime\nnow = datetime.now()",
        "import datetime\nnow = datetime.datetime.now()",
        "import uuid\nid = uuid.uuid4()",
        "from pathlib import PurePath, Path",
        "from uuid import uuid4",
        "print('x')",
    ),
)
def test_the_purity_check_finds(source: str) -> None:
    assert impurities(source)


def test_the_purity_check_allows_values_and_rules() -> None:
    imports = (
        "import hmac\nfrom uuid import UUID\nfrom pathlib import PurePath\nfrom datetime import timedelta\n"
    )
    assert impurities(imports + "def f(now): return now + 1") == []
