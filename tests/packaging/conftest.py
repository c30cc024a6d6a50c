"""Built distributions, and environments that hold nothing but what a wheel declares."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Member:
    """A distribution of the workspace."""

    home: Path

    @property
    def project(self) -> dict[str, Any]:
        """The `project` table of its pyproject.toml."""
        return dict(tomllib.loads((self.home / "pyproject.toml").read_text())["project"])

    @property
    def name(self) -> str:
        """Name of the distribution."""
        return str(self.project["name"])

    @property
    def package(self) -> str:
        """Name of its import package."""
        return self.name.replace("-", "_")

    @property
    def version(self) -> str:
        """Its version, written once."""
        return str(self.project["version"])


@dataclass(frozen=True)
class Built:
    """What a member's build made."""

    wheel: Path
    sdist: Path

    def metadata(self) -> Message:
        """METADATA of the wheel."""
        with zipfile.ZipFile(self.wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            return Parser().parsestr(archive.read(name).decode())

    def requirements(self) -> list[Requirement]:
        """What the wheel declares, extras included."""
        return [Requirement(text) for text in self.metadata().get_all("Requires-Dist", [])]


def workspace() -> dict[str, Member]:
    """Members by name, in the order of the root pyproject.toml."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["workspace"]
    members = (Member(ROOT / member) for member in table["members"])
    return {member.name: member for member in members}


def run(*argv: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program far from this checkout: nothing of it may be found by accident."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "LLMGW_"))
    }
    command = [str(part) for part in argv]
    return subprocess.run(
        command, cwd=cwd, env=kept, capture_output=True, text=True, timeout=300, check=False
    )


def succeed(*argv: object, cwd: Path) -> str:
    """Run a program that must exit 0, and give its output."""
    done = run(*argv, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def closure(wanted: Iterable[Requirement]) -> set[str]:
    """Installed third-party distributions that some requirements need, directly and indirectly."""
    found: set[tuple[str, str]] = set()
    queue = [(requirement, "") for requirement in wanted]
    while queue:
        requirement, extra = queue.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for taken in ({*requirement.extras} or {""}) | {""}:
            if (name, taken) not in found and name not in workspace():
                found.add((name, taken))
                queue.extend((Requirement(text), taken) for text in metadata.requires(name) or [])
    return {name for name, _ in found}


def lend(site_packages: Path, distributions: Iterable[str]) -> None:
    """Make installed distributions importable, and their metadata readable, in another environment."""
    for name in distributions:
        distribution = metadata.distribution(name)
        tops = {
            file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")
        }
        for top in tops:
            place = site_packages / top
            if not place.exists():
                place.symlink_to(Path(str(distribution.locate_file(top))))


class Environment:
    """A virtual environment with some wheels and what they declare, and nothing else."""

    def __init__(self, home: Path, pip: Path) -> None:
        self.home = home
        self._pip = pip
        succeed(sys.executable, "-m", "venv", "--without-pip", home, cwd=home.parent)
        (self.site_packages,) = home.glob("lib/python*/site-packages")

    def install(self, *built: Built, leave_out: str = "") -> None:
        """Install wheels and, but for `leave_out`, the distributions that they declare."""
        wheels = [one.wheel for one in built]
        options = ("install", "--quiet", "--no-index", "--no-deps", "--no-compile")
        succeed(
            self._pip, "-m", "pip", "--python", self.home / "bin/python", *options, *wheels, cwd=self.home
        )
        lend(self.site_packages, closure(need for one in built for need in one.requirements()) - {leave_out})

    def check(self) -> str:
        """What pip says about unmet or conflicting requirements."""
        done = run(self._pip, "-m", "pip", "--python", self.home / "bin/python", "check", cwd=self.home)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def python(self, program: str) -> subprocess.CompletedProcess[str]:
        """Run a Python program in it."""
        return run(self.home / "bin/python", "-c", program, cwd=self.home)

    def program(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run one of its console scripts."""
        return run(self.home / "bin" / argv[0], *argv[1:], cwd=self.home)


@pytest.fixture(scope="session")
def members() -> dict[str, Member]:
    """Members by name."""
    return workspace()


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Built]:
    """Build a member, once."""
    made: dict[str, Built] = {}

    def build(name: str) -> Built:
        if name not in made:
            target = tmp_path_factory.mktemp(f"dist-{name}")
            succeed(sys.executable, "-m", "hatchling", "build", "-d", target, cwd=workspace()[name].home)
            (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
            made[name] = Built(wheel, sdist)
        return made[name]

    return build


@pytest.fixture(scope="session")
def pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with pip, from the copy that comes with Python: no network is needed."""
    home = tmp_path_factory.mktemp("pip") / "environment"
    succeed(sys.executable, "-m", "venv", home, cwd=home.parent)
    return home / "bin" / "python"


@pytest.fixture
def empty_environment(tmp_path: Path, pip: Path) -> Environment:
    """An environment without any package."""
    return Environment(tmp_path / "environment", pip)
