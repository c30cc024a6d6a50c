"""What a process imports costs memory and start-up time, so two of them may import only little."""

from __future__ import annotations

import subprocess
import sys

STORE_AND_PLUGINS = frozenset({"sqlalchemy", "sqlmodel", "alembic", "yaml", "pluggy"})
HEAVY = frozenset(
    {"pydantic", "structlog", "rich", "sqlmodel", "httpx2", "uvicorn", "anyio", "starlette", "pluggy"}
)


def imported_by(module: str) -> frozenset[str]:
    """Top-level names in `sys.modules` of a new process that imported one module."""
    program = "import importlib, sys; importlib.import_module(sys.argv[1]); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, module], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return frozenset(name.split(".")[0] for name in done.stdout.split())


def test_the_gateway_worker_imports_no_store_and_no_plugins() -> None:
    assert imported_by("llmgw_core.gateway.worker") & STORE_AND_PLUGINS == frozenset()


def test_help_imports_nothing_heavy() -> None:
    assert imported_by("llmgw_core.cli.main") & HEAVY == frozenset()


def test_the_check_sees_what_a_module_imports() -> None:
    assert imported_by("llmgw_core.plugins") & STORE_AND_PLUGINS == {"pluggy"}
