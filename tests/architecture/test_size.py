"""Files and functions stay small enough to read; the report is printed with `pytest -s`."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Sequence
from pathlib import Path

FILE_LIMIT = 600
FUNCTION_LIMIT = 100
DUMPING_GROUNDS = frozenset({"utils", "util", "helpers", "helper", "common", "misc"})


def function_sizes(source: str) -> dict[str, int]:
    """Lines of every function of a module, by name and first line."""
    return {
        f"{node.name}:{node.lineno}": (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def file_size(source: str) -> int:
    """Lines of a file."""
    return len(source.splitlines())


def oversized(sources: dict[str, str]) -> list[str]:
    """Every file and function over its limit."""
    files = [
        f"{name}: {file_size(text)} lines" for name, text in sources.items() if file_size(text) > FILE_LIMIT
    ]
    functions = [
        f"{name}: {function} has {lines} lines"
        for name, text in sources.items()
        for function, lines in function_sizes(text).items()
        if lines > FUNCTION_LIMIT
    ]
    return files + functions


def is_dumping_ground(path: Path) -> bool:
    """Whether a module or package is named for not having a subject."""
    return any(part.strip("_") in DUMPING_GROUNDS for part in (*path.parent.parts, path.stem))


def spread(sizes: Sequence[int]) -> str:
    """Median, 95th percentile and maximum as text."""
    ordered = sorted(sizes)
    return (
        f"median {statistics.median(ordered):.0f}, p95 {ordered[int(len(ordered) * 0.95)]}, max {ordered[-1]}"
    )


def report(title: str, sources: dict[str, str]) -> str:
    """Sizes of files that are not empty, and of their functions."""
    files = [file_size(text) for text in sources.values() if text.strip()]
    functions = [lines for text in sources.values() for lines in function_sizes(text).values()]
    return (
        f"{title}: {len(files)} files of {spread(files)} lines, "
        f"{len(functions)} functions of {spread(functions)} lines"
    )


def test_no_file_and_no_function_is_too_long(
    root: Path, product_files: tuple[Path, ...], test_files: tuple[Path, ...]
) -> None:
    product = {str(path.relative_to(root)): path.read_text() for path in product_files}
    tests = {str(path.relative_to(root)): path.read_text() for path in test_files}
    print(report("product", product))
    print(report("tests", tests))
    assert oversized(product | tests) == []


def test_no_module_is_named_for_having_no_subject(
    root: Path, product_files: tuple[Path, ...], test_files: tuple[Path, ...]
) -> None:
    named = [path.relative_to(root) for path in (*product_files, *test_files)]
    assert [str(path) for path in named if is_dumping_ground(path)] == []


def test_the_size_check_finds_a_long_file_and_a_long_function() -> None:
    long_file = "x = 1\n" * (FILE_LIMIT + 1)
    long_function = "async def f():\n" + "    x = 1\n" * FUNCTION_LIMIT
    assert oversized({"a.py": long_file, "b.py": long_function, "c.py": "def g():\n    return 1\n"}) == [
        f"a.py: {FILE_LIMIT + 1} lines",
        f"b.py: f:1 has {FUNCTION_LIMIT + 1} lines",
    ]


def test_the_name_check_finds_modules_and_packages() -> None:
    assert is_dumping_ground(Path("src/llmgw_core/utils.py"))
    assert is_dumping_ground(Path("src/llmgw_core/common/frame.py"))
    assert is_dumping_ground(Path("src/llmgw_core/_helpers.py"))
    assert not is_dumping_ground(Path("src/llmgw_core/commands.py"))
