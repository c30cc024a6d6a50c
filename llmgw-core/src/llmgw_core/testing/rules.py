"""What the suites have in common: how a rule says that it is broken, and the rules of every plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cached_property, wraps
from importlib.metadata import entry_points
from types import ModuleType, UnionType
from typing import TypeVar, get_args, get_type_hints

from llmgw_core.plugin_call import HOOKS
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import PluginError

__all__ = ["PAGE", "PluginTests", "anchor", "child", "rule"]

PAGE = "docs/write-a-plugin.md"
_HEAVY = frozenset({"torch", "numpy", "vllm", "sglang", "ray", "tensorflow", "jax", "cupy", "llmgw_agent"})
Suite = TypeVar("Suite")


def anchor(name: str) -> str:
    """Where the page says why a rule is there."""
    return name.removeprefix("test_").replace("_", "-")


def rule(test: Callable[[Suite], None]) -> Callable[[Suite], None]:
    """A test that says, when it fails, which rule is broken and where to read why it is there."""
    name = test.__name__.removeprefix("test_").replace("_", " ")
    sentence = (test.__doc__ or "").partition("\n")[0]

    @wraps(test)
    def checked(suite: Suite) -> None:
        __tracebackhide__ = True
        try:
            test(suite)
        except (AssertionError, PluginError) as error:
            # Notes are what Hypothesis says of its example.
            found = "\n".join((str(error), *getattr(error, "__notes__", ())))
            text = f"{name}: {sentence}\n{found}\nsee {PAGE}#{anchor(test.__name__)}"
            raise AssertionError(text) from error

    return checked


def child(program: str, *arguments: str, seed: str = "0") -> str:
    """What another Python, with the same path, prints; `seed` is that of its hashes.

    Raises AssertionError with its traceback.
    """
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{program}", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


class PluginTests:
    """The rules of every plugin; the suite of its kind adds the rest."""

    plugin: ModuleType
    name: str
    """The name of the plugin and of its entry point."""
    kind: str

    @rule
    def test_its_entry_point_leads_to_it(self) -> None:
        """Plugins are found by their entry point, under the name that they say of themselves."""
        found = [entry.load() for entry in entry_points(group="llmgw", name=self.name)]
        assert found == [self.plugin], f"the entry point {self.name!r} of group llmgw leads to {found}"
        loaded = [(one.info.name, one.info.kind) for one in self._plugins.plugins]
        assert loaded == [(self.name, self.kind)], f"it says of itself: {loaded}"

    @rule
    def test_its_annotations_are_those_of_the_hooks(self) -> None:
        """A wrong annotation lets a type checker accept what fails on a node."""
        for hook, spec in HOOKS.items():
            declared = get_type_hints(spec)
            for argument, own in get_type_hints(getattr(self.plugin, hook, None) or (lambda: None)).items():
                wanted = declared[argument]
                narrower = argument == "return" and isinstance(wanted, UnionType) and own in get_args(wanted)
                assert own == wanted or narrower, f"{hook}: {argument} is {own}, the hook has {wanted}"

    @rule
    def test_importing_it_is_cheap(self) -> None:
        """The agent imports every plugin at its start: nothing heavy, and nothing of the agent's own."""
        program = "import importlib; importlib.import_module(sys.argv[1]); print(*sys.modules)"
        modules = child(program, self.plugin.__name__).split()
        heavy = {name.partition(".")[0] for name in modules} & _HEAVY
        assert not heavy, f"importing it imports {', '.join(sorted(heavy))}"

    @cached_property
    def _plugins(self) -> PluginHost:
        return PluginHost.of(self.plugin)
