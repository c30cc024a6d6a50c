"""Each rule of FabricTests is broken by a plugin with one defect, and that rule says so."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from llmgw_core.spec import FabricPort, PluginFailed, PluginRefused
from llmgw_core.testing.fabric import FabricRecording, FabricTests
from llmgw_core.testing.hosts import TreeHost

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
DEFECTS = """
# test_its_entry_point_leads_to_it: has another name
@hookimpl
def llmgw_plugin_info():
    return PluginInfo(name="wires", kind="fabric", api=HOOK_API, summary="for tests")

# test_its_entry_point_leads_to_it: is not whole
del llmgw_fabric_env

# test_its_entry_point_leads_to_it: gives a default
@hookimpl
def llmgw_fabric_discover(host=None):
    return found(host)

# test_its_entry_point_leads_to_it: is async
@hookimpl
async def llmgw_fabric_discover(host):
    return found(host)

# test_its_annotations_are_those_of_the_hooks: says that it gives a list
@hookimpl
def llmgw_fabric_discover(host) -> list:
    return found(host)

# test_importing_it_is_cheap: imports what only an engine needs
import cupy

# test_it_sees_the_machine_only_through_the_host: reads a file itself
@hookimpl
def llmgw_fabric_discover(host):
    Path("/proc/self/stat").read_text()
    return found(host)

# test_it_sees_the_machine_only_through_the_host: lists a directory itself
@hookimpl
def llmgw_fabric_discover(host):
    list(Path("/").iterdir())
    return found(host)

# test_it_sees_the_machine_only_through_the_host: runs a program itself
@hookimpl
def llmgw_fabric_discover(host):
    subprocess.run(["true"])
    return found(host)

# test_it_sees_the_machine_only_through_the_host: opens a socket for its environment
@hookimpl
def llmgw_fabric_env(ports):
    socket.socket().close()
    return variables(ports)

# test_it_sees_the_machine_only_through_the_host: sleeps
@hookimpl
def llmgw_fabric_discover(host):
    time.sleep(0.001)
    return found(host)

# test_recordings_give_the_expected_ports: finds one port less
@hookimpl
def llmgw_fabric_discover(host):
    return found(host)[:2]

# test_recordings_give_the_expected_ports: takes a port that is down for active
@hookimpl
def llmgw_fabric_discover(host):
    return changed(found(host), active=True)

# test_it_says_the_same_twice: has random rates
@hookimpl
def llmgw_fabric_discover(host):
    return changed(found(host), rate_gbps=random.random())

# test_it_says_the_same_twice: has a random environment
@hookimpl
def llmgw_fabric_env(ports):
    return variables(ports) | {"SEED": str(random.random())}

# test_a_machine_without_adapters_has_no_ports: raises
@hookimpl
def llmgw_fabric_discover(host):
    return tuple(cable(host, name) for name in host.list_dir(ROOT))

# test_a_machine_without_adapters_has_no_ports: believes in an adapter
@hookimpl
def llmgw_fabric_discover(host):
    return found(host) or (cable(host, "c0"),)

# test_missing_files_do_not_matter: raises for one
def state(host, name):
    if "state" not in (host.list_dir(f"{ROOT}/{name}") or ()):
        raise KeyError(name)
    return good_state(host, name)

# test_unreadable_files_do_not_matter: raises for one
def state(host, name):
    if "state" in (host.list_dir(f"{ROOT}/{name}") or ()):
        host.read_text(f"{ROOT}/{name}/state").strip()
    return good_state(host, name)

# test_unreadable_files_do_not_matter: raises for a directory that is hidden
def state(host, name):
    len(host.list_dir(f"{ROOT}/{name}"))
    return good_state(host, name)

# test_garbled_files_do_not_matter: raises for a word that it does not know
def state(host, name):
    return {"up": "up", "down": "down", "": None}[(host.read_text(f"{ROOT}/{name}/state") or "").strip()]

# test_garbled_files_do_not_matter: takes every digit for a number
@hookimpl
def llmgw_fabric_discover(host):
    sum(int(sign) for name in host.list_dir(ROOT) or () for sign in name if sign.isdigit())
    return found(host)

# test_every_port_is_sound: is usable in spite of its reasons
@hookimpl
def llmgw_fabric_discover(host):
    return changed(found(host), usable=True)

# test_every_port_is_sound: is out for no reason
@hookimpl
def llmgw_fabric_discover(host):
    return changed(found(host), usable=False)

# test_every_port_is_sound: has a reason of its own
@hookimpl
def llmgw_fabric_discover(host):
    return changed(found(host), usable=False, reasons=(Reason(code="tired"),))

# test_every_port_is_sound: lists a port twice
@hookimpl
def llmgw_fabric_discover(host):
    return found(host) * 2

# test_every_port_is_sound: has a fabric of no strength
@hookimpl
def llmgw_fabric_discover(host):
    return changed(found(host), fabric_strength=None)

# test_every_port_is_sound: says that the operator said it
@hookimpl
def llmgw_fabric_discover(host):
    return changed(found(host), fabric="x", fabric_strength="label")

# test_it_ends_within_its_time_limit: gives a command an hour
@hookimpl
def llmgw_fabric_discover(host):
    host.run(("cablestat",), 3600.0)
    return found(host)

# test_it_ends_within_its_time_limit: asks until something comes up
@hookimpl
def llmgw_fabric_discover(host):
    while host.list_dir(ROOT) and not any(port.active for port in found(host)):
        pass
    return found(host)

# test_no_ports_need_no_environment: has variables for no port
@hookimpl
def llmgw_fabric_env(ports):
    return {"NCCL_IB_HCA": "="} | variables(ports)

# test_the_environment_names_exactly_the_ports: leaves the choice open
@hookimpl
def llmgw_fabric_env(ports):
    return {"NCCL_NET": "IB"} if ports else {}

# test_the_environment_names_exactly_the_ports: names every adapter that it knows
@hookimpl
def llmgw_fabric_env(ports):
    return {"ADAPTERS": "c1:1,c10:1"} if ports else {}

# test_the_environment_is_in_the_form_that_libraries_read: gives NCCL a prefix
@hookimpl
def llmgw_fabric_env(ports):
    return {name: value.lstrip("=") for name, value in variables(ports).items()}

# test_the_environment_is_in_the_form_that_libraries_read: excludes instead
@hookimpl
def llmgw_fabric_env(ports):
    return {name: value.replace("=", "^=") for name, value in variables(ports).items()}

# test_the_environment_is_in_the_form_that_libraries_read: writes to Gloo as to NCCL
@hookimpl
def llmgw_fabric_env(ports):
    return variables(ports) | {"GLOO_SOCKET_IFNAME": "=eth0"}
"""
"""For each defect the rule that has to name it, what it is, and how a good plugin's source then ends."""


def defects() -> list[Any]:
    pieces = re.split(r"^# (test_\w+): (.+)$", DEFECTS, flags=re.MULTILINE)[1:]
    triples = zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)
    return [pytest.param(rule, source, id=f"{rule}-{what}") for rule, what, source in triples]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Installs the good plugin with some more source at its end, as a distribution with an entry point."""
    modules = ("llmgw_tests_cables", "cupy")

    def install(defect: str) -> ModuleType:
        (tmp_path / "llmgw_tests_cables.py").write_text(GOOD + defect)
        (tmp_path / "cupy.py").touch()
        info = tmp_path / "llmgw_tests_cables-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llmgw-tests-cables\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[llmgw]\ncables = llmgw_tests_cables\n")
        monkeypatch.syspath_prepend(tmp_path)
        return importlib.import_module("llmgw_tests_cables")

    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    yield install
    for name in modules:
        sys.modules.pop(name, None)
    sys.modules.update(before)


class Suite(FabricTests):
    """What a plugin's author would write, made on the spot."""

    def __init__(self, plugin: ModuleType, *recordings: FabricRecording) -> None:
        self.plugin = plugin
        self.name = "cables"
        self.recordings = recordings


RECORDING = FabricRecording("three cables", HOST, PORTS)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_good_plugin_keeps_every_rule(rule: str, installed: Callable[[str], ModuleType]) -> None:
    getattr(Suite(installed(""), RECORDING), rule)()


@pytest.mark.parametrize(("rule", "source"), defects())
def test_a_defect_breaks_the_rule_that_is_about_it(
    rule: str, source: str, installed: Callable[[str], ModuleType]
) -> None:
    suite = Suite(installed(source), RECORDING)
    with pytest.raises((AssertionError, PluginRefused, PluginFailed)) as broken:
        getattr(suite, rule)()
    assert str(broken.value).strip()


def test_every_rule_is_broken_by_some_defect() -> None:
    assert {parameters.values[0] for parameters in defects()} == RULES


def test_a_suite_without_recordings_proves_nothing_and_says_so(
    installed: Callable[[str], ModuleType],
) -> None:
    with pytest.raises(AssertionError, match="there are no recordings"):
        Suite(installed("")).test_recordings_give_the_expected_ports()
