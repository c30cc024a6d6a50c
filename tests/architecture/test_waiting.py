"""Tests wait for what they want to see, with a deadline; none sleeps a fixed time and then looks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest


def blind_sleeps(source: str) -> list[str]:
    """Calls of `sleep` that no waiting loop repeats, each with its line.

    A waiting loop ends by what it sees: a `while` whose condition is not only the clock, or a loop with a
    `break` or `return`; a loop that yields paces what a slow peer sends. `sleep(0)` lets others run and is no
    waiting. A stand-in for something slow waits for an event, or for ever.
    """
    tree = ast.parse(source)
    return [f"line {call.lineno}" for call in _outside_loops(tree)]


def _outside_loops(node: ast.AST) -> list[ast.Call]:
    found: list[ast.Call] = []
    for child in ast.iter_child_nodes(node):
        if _is_waiting_loop(child):
            continue
        if isinstance(child, ast.Call) and _sleeps(child):
            found.append(child)
        found.extend(_outside_loops(child))
    return found


def _is_waiting_loop(node: ast.AST) -> bool:
    if isinstance(node, ast.While) and not isinstance(node.test, ast.Constant) and not _only_clock(node.test):
        return True
    if not isinstance(node, ast.While | ast.For | ast.AsyncFor):
        return False
    return any(
        isinstance(inner, ast.Break | ast.Return | ast.Yield)
        for part in node.body
        for inner in ast.walk(part)
    )


def _only_clock(test: ast.expr) -> bool:
    called = {
        node.func.attr
        for node in ast.walk(test)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    return isinstance(test, ast.Compare) and bool(
        called & {"monotonic", "time", "perf_counter", "current_time"}
    )


def _sleeps(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    yields_only = len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
    return name == "sleep" and not yields_only


def test_no_test_sleeps_a_fixed_time(root: Path, test_files: tuple[Path, ...]) -> None:
    found = {
        str(path.relative_to(root)): lines for path in test_files if (lines := blind_sleeps(path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    (
        "def test():\n    time.sleep(1)\n    assert ready()",
        "async def test():\n    await anyio.sleep(0.1)\n    assert ready()",
        "from time import sleep\nsleep(2)",
        "def test():\n    for _ in range(3):\n        time.sleep(1)\n    assert ready()",
        "def test():\n    with deadline(5):\n        time.sleep(delay)",
        "while True:\n    time.sleep(1)",
        "while time.monotonic() < end:\n    time.sleep(1)\nassert ready()",
    ),
)
def test_the_sleep_check_finds(source: str) -> None:
    assert blind_sleeps(source)


@pytest.mark.parametrize(
    "source",
    (
        "def test():\n    while not ready():\n        time.sleep(0.05)\n    assert done()",
        "while True:\n    if ready():\n        break\n    await anyio.sleep(0.05)",
        "while not ready() and time.monotonic() < end:\n    time.sleep(1)\nassert ready()",
        "for _ in range(300):\n    if ready():\n        break\n    time.sleep(0.1)\nelse:\n    fail()",
        "async def drip():\n    while True:\n        yield b'.'\n        await anyio.sleep(0.01)",
        "async def test():\n    await anyio.sleep(0)",
        "async def test():\n    await anyio.sleep_forever()",
    ),
)
def test_the_sleep_check_allows_polling(source: str) -> None:
    assert blind_sleeps(source) == []
