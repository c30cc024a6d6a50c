"""`llmgw_core.spec` exports exactly what it says."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import llmgw_core.spec
import pytest

SUBMODULES = tuple(info.name for info in pkgutil.iter_modules(llmgw_core.spec.__path__))


def importable(module: ModuleType) -> set[str]:
    """Public names of a package: what `dir` shows, without submodules, modules and the future."""
    names = {name for name in dir(module) if not name.startswith("_")} - {"annotations", "TYPE_CHECKING"}
    return {name for name in names if not isinstance(getattr(module, name), ModuleType)}


def missing(module: ModuleType) -> list[str]:
    """Names in `__all__` that cannot be imported."""
    return [name for name in module.__all__ if not hasattr(module, name)]


def test_all_is_exactly_what_is_importable() -> None:
    assert missing(llmgw_core.spec) == []
    assert set(llmgw_core.spec.__all__) == importable(llmgw_core.spec)


def test_no_name_is_listed_twice() -> None:
    assert sorted(set(llmgw_core.spec.__all__)) == sorted(llmgw_core.spec.__all__)


@pytest.mark.parametrize("submodule", SUBMODULES)
def test_names_of_a_submodule_are_the_packages_own(submodule: str) -> None:
    module = importlib.import_module(f"llmgw_core.spec.{submodule}")
    listed = getattr(module, "__all__", None)
    if listed is None:
        defined = {
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        }
        assert defined <= set(llmgw_core.spec.__all__)
    else:
        assert missing(module) == []


def test_the_check_finds_a_name_too_many_and_a_name_too_few() -> None:
    module = ModuleType("contract")
    vars(module).update({"__all__": ["Listed", "Gone"], "Listed": 1, "Unlisted": 2, "_private": 3})
    assert missing(module) == ["Gone"]
    assert importable(module) - set(module.__all__) == {"Unlisted"}
