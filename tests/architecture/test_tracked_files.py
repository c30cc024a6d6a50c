"""The project carries nothing of the machine on which it was written."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

HOME = re.compile(r"(?<![\w.~$}])/(?:root|home/[a-z][\w-]*|Users/\w+|work|workspace)(?:/|\b)(?=[\w.~-]|/)")
INDEX = re.compile(
    r"(?:https?://[\w.:-]+/simple|--(?:extra-)?index-url|--find-links|--trusted-host|file:///)"
)
INDEX_FREE = ("requirements/", "scripts/", ".ci/", "packaging/")
"""Where a package comes from is the machine's own business: these files never say it."""
SMALL = 64
"""Files below this many bytes (empty ones, markers) are equal by chance."""


def local_paths(text: str) -> list[str]:
    """Absolute paths that only make sense on one machine."""
    return [match.group() for match in HOME.finditer(text)]


def index_addresses(text: str) -> list[str]:
    """Hosts and addresses of package indexes."""
    return [match.group() for match in INDEX.finditer(text)]


def copies(files: tuple[Path, ...], originals: tuple[Path, ...]) -> list[str]:
    """Names of files whose content is one of the originals'."""
    known = {_digest(path) for path in originals if path.stat().st_size >= SMALL}
    return [path.name for path in files if path.stat().st_size >= SMALL and _digest(path) in known]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _text(path: Path) -> str:
    return path.read_text(errors="replace")


def test_no_file_names_a_path_of_one_machine(root: Path, tracked_files: tuple[Path, ...]) -> None:
    own = Path(__file__)
    found = {
        str(p.relative_to(root)): hits for p in tracked_files if p != own and (hits := local_paths(_text(p)))
    }
    assert found == {}


def test_nothing_that_installs_names_a_package_index(root: Path, tracked_files: tuple[Path, ...]) -> None:
    names = {path: str(path.relative_to(root)) for path in tracked_files}
    files = [path for path, name in names.items() if name.startswith(INDEX_FREE) or name.endswith(".toml")]
    found = {names[path]: hits for path in files if (hits := index_addresses(_text(path)))}
    # The switches that keep addresses out of the pinned sets name what they keep out.
    assert found == {}


def test_no_file_is_a_copy_of_the_shared_material(root: Path, tracked_files: tuple[Path, ...]) -> None:
    shared = root.parent / "shared"
    if not shared.is_dir():
        pytest.skip("there is no shared material beside this checkout")
    assert copies(tracked_files, tuple(path for path in shared.rglob("*") if path.is_file())) == []


@pytest.mark.parametrize("text", ("see /root/x", "cd /work/x", "'/home/alice/llmgw'", "path=/Users/al/x"))
def test_the_path_check_finds(text: str) -> None:
    assert local_paths(text)


@pytest.mark.parametrize(
    "text", ("~/work/x", "/usr/bin/env", "docs/root/x", "framework/work/", "/var/lib/llmgw", "/roots")
)
def test_the_path_check_allows(text: str) -> None:
    assert local_paths(text) == []


@pytest.mark.parametrize(
    "text", ("--index-url https://mirror", "https://mirror.example/simple", "file:///srv/wheels")
)
def test_the_index_check_finds(text: str) -> None:
    assert index_addresses(text)


def test_the_copy_check_finds_a_copy(tmp_path: Path) -> None:
    original, copy, other = (tmp_path / name for name in ("original", "copy", "other"))
    original.write_text("a" * SMALL)
    copy.write_text("a" * SMALL)
    other.write_text("b" * SMALL)
    assert copies((copy, other), (original,)) == ["copy"]
