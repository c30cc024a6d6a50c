"""The rules of the kit, on machines of every shape; each file of `machines` says what is expected of it."""

from __future__ import annotations

from pathlib import Path

import llmgw_fabric_ib
import yaml
from llmgw_core.spec import FabricPort
from llmgw_core.testing.fabric import FabricRecording, FabricTests
from llmgw_core.testing.hosts import read_tree


def recorded(path: Path) -> FabricRecording:
    document = yaml.safe_load(path.read_text())
    ports = tuple(FabricPort.model_validate(port) for port in document["expected"])
    return FabricRecording(path.stem, read_tree(document), ports)


class TestFabricIb(FabricTests):
    plugin = llmgw_fabric_ib
    name = "fabric-ib"
    recordings = tuple(map(recorded, sorted(Path(__file__).with_name("machines").glob("*.yaml"))))
