"""Each rule of FabricTests is broken by a plugin with one defect, and that rule says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from llmgw_core.spec import FabricPort, PluginFailed, PluginRefused
from llmgw_core.testing.fabric import FabricRecording, FabricTests
from llmgw_core.testing.hosts import TreeHost

from .conftest import Install, defects_of

GOOD = """
import random, re, socket, subprocess, time
from pathlib import Path
from llmgw_core.spec import HOOK_API, FabricPort, PluginInfo, Reason, hookimpl

ROOT = "/sys/class/cables"

@hookimpl
def llmgw_plugin_info():
    return PluginInfo(name="cables", kind="fabric", api=HOOK_API, summary="for tests")

@hookimpl
def llmgw_fabric_discover(host):
    return found(host)

@hookimpl
def llmgw_fabric_env(ports):
    return variables(ports)

def found(host):
    return tuple(cable(host, name) for name in host.list_dir(ROOT) or ())

def cable(host, name):
    now = state(host, name)
    codes = {"up": (), "down": ("down",), None: ("unreadable",)}[now]
    net = (host.read_text(f"{ROOT}/{name}/net") or "").strip()
    fabric = net if re.fullmatch("[a-z]+", net) else None
    return FabricPort(
        device=name, port=1, link_layer="infiniband", active=now == "up", usable=not codes,
        reasons=tuple(Reason(code=code) for code in codes),
        fabric=fabric, fabric_strength="weak" if fabric else None,
    )

def good_state(host, name):
    text = (host.read_text(f"{ROOT}/{name}/state") or "").strip()
    return text if text in ("up", "down") else None

state = good_state

def variables(ports):
    names = ",".join(f"{port.device}:{port.port}" for port in ports)
    return {"NCCL_IB_HCA": f"={names}"} if ports else {}

def changed(ports, **fields):
    return tuple(port.model_copy(update=fields) for port in ports)
"""
HOST = TreeHost(
    {
        "/sys/class/cables/c1/state": "up\n",
        "/sys/class/cables/c1/net": "red\n",
        "/sys/class/cables/c10/state": "up\n",
        "/sys/class/cables/c10/net": "blue\n",
        "/sys/class/cables/c2/state": "down\n",
    }
)


def a_port(device: str, fabric: str | None, **fields: object) -> FabricPort:
    base = {"device": device, "port": 1, "link_layer": "infiniband", "active": True, "usable": True}
    strength = "weak" if fabric else None
    return FabricPort.model_validate({**base, "fabric": fabric, "fabric_strength": strength, **fields})


PORTS = (
    a_port("c1", "red"),
    a_port("c10", "blue"),
    a_port("c2", None, active=False, usable=False, reasons=({"code": "down"},)),
)

RULES = {name for name in dir(FabricTests) if name.startswith("test_")}
DEFECTS = defects_of(Path(__file__).with_name("defects").joinpath("fabric.txt").read_text())


@pytest.fixture
def cables(installed: Install) -> Callable[[str], ModuleType]:
    """Installs the good plugin with some more source at its end."""
    return lambda defect: installed("llmgw_tests_cables", {"__init__.py": GOOD + defect}, "cables")


class Suite(FabricTests):
    """What a plugin's author would write, made on the spot."""

    def __init__(self, plugin: ModuleType, *recordings: FabricRecording) -> None:
        self.plugin = plugin
        self.name = "cables"
        self.recordings = recordings


RECORDING = FabricRecording("three cables", HOST, PORTS)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_good_plugin_keeps_every_rule(rule: str, cables: Callable[[str], ModuleType]) -> None:
    getattr(Suite(cables(""), RECORDING), rule)()


@pytest.mark.parametrize(("rule", "source"), DEFECTS)
def test_a_defect_breaks_the_rule_that_is_about_it(
    rule: str, source: str, cables: Callable[[str], ModuleType]
) -> None:
    suite = Suite(cables(source), RECORDING)
    with pytest.raises((AssertionError, PluginRefused, PluginFailed)) as broken:
        getattr(suite, rule)()
    assert str(broken.value).strip()


def test_every_rule_is_broken_by_some_defect() -> None:
    assert {parameters.values[0] for parameters in DEFECTS} == RULES


def test_a_suite_without_recordings_proves_nothing_and_says_so(
    cables: Callable[[str], ModuleType],
) -> None:
    with pytest.raises(AssertionError, match="there are no recordings"):
        Suite(cables("")).test_recordings_give_the_expected_ports()
