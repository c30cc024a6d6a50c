"""Every member builds, and what is built says who made it and what it needs."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

if TYPE_CHECKING:
    from .conftest import Built, Member

# Builds and installs for real, beside whatever else the machine does.
pytestmark = [pytest.mark.xdist_group("packaging"), pytest.mark.timeout(600)]

NAMES = (
    "llmgw-core",
    "llmgw-agent",
    "llmgw-vllm",
    "llmgw-sglang",
    "llmgw-llamacpp",
    "llmgw-fabric-ib",
    "llmgw-example",
)


def pin_problem(pin: SpecifierSet, version: str) -> str | None:
    """Why a member's range for another member will not do; None when it does."""
    operators = {specifier.operator for specifier in pin}
    if operators & {"==", "==="}:
        return "pins one version, so that every release would have to release everything"
    if not operators & {"<", "<=", "~="}:
        return "has no upper bound"
    if version not in pin:
        return f"does not contain the version in this tree, {version}"
    return None


def test_the_workspace_lists_every_member(members: dict[str, Member]) -> None:
    assert tuple(members) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_wheel_is_typed_licensed_and_holds_one_package(
    name: str, members: dict[str, Member], dist: Callable[[str], Built]
) -> None:
    built, member = dist(name), members[name]
    assert built.wheel.name == f"{member.package}-{member.version}-py3-none-any.whl"
    with zipfile.ZipFile(built.wheel) as archive:
        files = archive.namelist()
    assert f"{member.package}/py.typed" in files
    assert {file.split("/")[0] for file in files} == {
        member.package,
        f"{member.package}-{member.version}.dist-info",
    }
    facts = built.metadata()
    assert facts["License-Expression"] == "Apache-2.0"
    assert facts["Requires-Python"] == ">=3.11"
    assert facts["Summary"]


@pytest.mark.parametrize("name", NAMES)
def test_sdist_holds_what_a_build_needs(
    name: str, members: dict[str, Member], dist: Callable[[str], Built]
) -> None:
    member = members[name]
    with tarfile.open(dist(name).sdist) as archive:
        files = {file.partition("/")[2] for file in archive.getnames()}
    assert {"pyproject.toml", "README.md", "PKG-INFO", f"src/{member.package}/__init__.py"} <= files


@pytest.mark.parametrize("name", NAMES[1:])
def test_members_need_each_other_by_ranges(name: str, members: dict[str, Member]) -> None:
    needs = [Requirement(text) for text in members[name].project["dependencies"]]
    own = {
        need.name: pin_problem(need.specifier, members[need.name].version)
        for need in needs
        if need.name in members
    }
    assert own == {"llmgw-core": None}


def test_core_needs_no_other_member(members: dict[str, Member]) -> None:
    needs = {Requirement(text).name for text in members["llmgw-core"].project["dependencies"]}
    assert needs & set(members) == set()


@pytest.mark.parametrize("pin", ("==0.1.0", ">=0.1", ">=0.2,<1", ""))
def test_the_pin_check_finds(pin: str) -> None:
    assert pin_problem(SpecifierSet(pin), "0.1.0")
