"""Plugins written to disk as installed distributions, so that loading them is the real thing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from llmgw_core.plugins import PluginHost, Refused

ENGINE = """
from llmgw_core.spec import *
from llmgw_core.spec import HOOK_API, hookimpl

@hookimpl
def llmgw_plugin_info() -> PluginInfo:
    return PluginInfo(name="{name}", kind="engine", api=HOOK_API, summary="for tests")

@hookimpl
def llmgw_engine_info() -> EngineInfo:
    return EngineInfo(name="{name}", title="T", binary=BinarySpec(names=("x",)), paths=("/v1/completions",))

@hookimpl
def llmgw_engine_commands(shard: Shard, launch: Launch) -> tuple[Command, ...]:
    return (Command(name="engine", argv=(*launch.binary, shard.source)),)

@hookimpl
def llmgw_engine_probes(shard: Shard, launch: Launch) -> Probes | None:
    return None

@hookimpl
def llmgw_engine_ready(responses) -> Readiness:
    return Readiness(ready=bool(responses), reason="asked" if responses else "not asked")
"""

FABRIC = """
from llmgw_core.spec import FabricPort, HOOK_API, PluginInfo, Unsupported, hookimpl

@hookimpl
def llmgw_plugin_info():
    return PluginInfo(name="{name}", kind="fabric", api=HOOK_API, summary="for tests")

@hookimpl
def llmgw_fabric_discover(host):
    return (FabricPort(device="{name}", port=1, link_layer="roce"),)

@hookimpl
def llmgw_fabric_env(ports):
    return {{port.device: str(port.port) for port in ports}}
"""


class Shelf:
    """A directory on the import path, into which tests install distributions with plugins."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.names: set[str] = set()
        self.modules: set[str] = set()

    def engine(self, name: str, extra: str = "", **dist: str) -> None:
        """Install a good engine plugin whose module ends with `extra`: a later definition wins."""
        self.add(name, ENGINE.format(name=name) + extra, **dist)

    def fabric(self, name: str, extra: str = "", **dist: str) -> None:
        """Install a good fabric plugin; see `engine`."""
        self.add(name, FABRIC.format(name=name) + extra, **dist)

    def add(self, name: str, source: str, *, dist: str = "", version: str = "1.0") -> None:
        """Install a module with the entry point `name`, in a distribution of its own."""
        dist = dist or f"dist-{name}"
        module = dist.replace("-", "_")
        (self.directory / f"{module}.py").write_text(source)
        self.describe(dist, f"[llmgw]\n{name} = {module}\n", version)
        self.names.add(name)
        self.modules.add(module)

    def describe(self, dist: str, entry_points: str, version: str = "1.0") -> None:
        """Write the metadata of a distribution."""
        folder = self.directory / f"{dist.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}\n")
        (folder / "entry_points.txt").write_text(entry_points)

    def host(self) -> PluginHost:
        """The host of what was installed here, found among everything that this environment has."""
        return PluginHost.load(only=",".join(self.names))

    def refusal(self) -> Refused:
        """The one refusal of the host; nothing may be loaded beside it."""
        host = self.host()
        assert host.plugins == ()
        (refused,) = host.refused
        return refused


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    """An empty shelf on sys.path; what was imported from it is forgotten afterwards."""
    directory = tmp_path / "shelf"
    directory.mkdir()
    monkeypatch.syspath_prepend(str(directory))
    # Two modules of one size within one second would share a cached .pyc.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    shelf = Shelf(directory)
    yield shelf
    for module in shelf.modules:
        sys.modules.pop(module, None)
