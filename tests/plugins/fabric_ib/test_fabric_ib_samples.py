"""Machines of other people, as they were recorded or posted, where their samples lie beside this checkout."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from llmgw_core.spec import CommandResult, FabricPort, Launch
from llmgw_core.testing.hosts import TreeHost, read_tree
from llmgw_fabric_ib import llmgw_fabric_discover, llmgw_fabric_env
from llmgw_fabric_ib.adapter import Port
from llmgw_fabric_ib.ibstat import parse
from llmgw_fabric_ib.rails import judge
from llmgw_fabric_ib.sysfs import read_ports

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "hardware"
LAUNCH = Launch(binary=("engine",), version="1", work_dir="/w", log_dir="/l")
CLASS = "/sys/class/infiniband"
ZERO_IS_NONE = ("lid", "sm_lid")
REMARKS = {"port", "rate_text", "ipv4", "netdev", "roce_v2_ipv4_gid_index", "phys"}
"""Expectations that are compared under another name, or are only remarks of who recorded it."""

pytestmark = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason="there are no recorded samples beside this checkout"
)


@cache
def index() -> tuple[Mapping[str, Any], ...]:
    if not SAMPLES.is_dir():
        return ()
    return tuple(yaml.safe_load((SAMPLES / "index.yaml").read_text())["samples"])


def samples(kind: str) -> list[Any]:
    """The samples of a kind, as parameters; one that is skipped where there are none."""
    found = [pytest.param(one, id=one["id"]) for one in index() if one["kind"] == kind]
    return found or [pytest.param({}, id="none")]


def sample(name: str) -> Mapping[str, Any]:
    return next(one for one in index() if one["id"] == name)


def expected_ports(entry: Mapping[str, Any]) -> Iterator[tuple[tuple[str, int], Mapping[str, Any], bool]]:
    """Each port's key, what is expected of it, and whether NCCL may use its adapter."""
    for hca in entry["expected"]["hcas"]:
        for port in hca["ports"]:
            yield (hca["name"], port["port"]), port, hca.get("use_for_nccl", True) is True


def told(port: Port, field: str) -> Any:
    value = getattr(port, field)
    return value or 0 if field in ZERO_IS_NONE else value


def check_facts(port: Port, expected: Mapping[str, Any]) -> None:
    plain = expected.keys() - REMARKS
    assert {field: told(port, field) for field in plain} == {field: expected[field] for field in plain}
    assert port.physical_state == expected.get("phys", port.physical_state)
    gid = port.routable_gid
    if "roce_v2_ipv4_gid_index" in expected:
        assert gid is not None
        assert (gid.index, str(gid.ipv4), gid.netdev) == (
            expected["roce_v2_ipv4_gid_index"],
            expected["ipv4"],
            expected["netdev"],
        )


@pytest.mark.parametrize("entry", samples("sysfs tree"))
def test_a_tree_gives_the_facts_and_the_verdicts_that_are_expected(entry: Mapping[str, Any]) -> None:
    host = read_tree(SAMPLES / entry["file"])
    facts = {port.key: port for port in read_ports(host)}
    ports = {(port.device, port.port): port for port in llmgw_fabric_discover(host)}
    expected = list(expected_ports(entry))
    assert list(facts) == list(ports) == [key for key, _, _ in expected]
    for key, wanted, for_nccl in expected:
        check_facts(facts[key], wanted)
        port = ports[key]
        assert (port.usable, port.active) == (for_nccl and wanted["active"], wanted["active"])
        assert port.gid_index == wanted.get("roce_v2_ipv4_gid_index")
        assert port.netdev == wanted.get("netdev")


@pytest.mark.parametrize("entry", samples("sysfs tree"))
def test_a_tree_gives_the_fabrics_and_the_environment_that_are_expected(entry: Mapping[str, Any]) -> None:
    expected = entry["expected"]
    ports = llmgw_fabric_discover(read_tree(SAMPLES / entry["file"]))
    fabrics: defaultdict[str, list[str]] = defaultdict(list)
    for port in ports:
        if port.fabric:
            fabrics[port.fabric.removeprefix("ib:")].append(f"{port.device}:{port.port}")
    assert fabrics == expected.get("fabrics", {})
    strong = {port.fabric for port in ports if port.fabric_strength == "strong"}
    assert strong == {f"ib:{key}" for key in fabrics if key != "fe80:0000:0000:0000"}
    env = llmgw_fabric_env(tuple(port for port in ports if port.usable), LAUNCH)
    for name in ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX"):
        if f"suggested_{name}" in expected:
            assert env[name] == str(expected[f"suggested_{name}"])


def test_nodes_whose_cables_are_swapped_use_different_ports_for_one_fabric() -> None:
    hcas = []
    for node in ("node1", "node2"):
        ports = llmgw_fabric_discover(read_tree(SAMPLES / f"sysfs/ib-dual-port-two-fabrics-{node}.tree.yaml"))
        chosen = tuple(port for port in ports if port.fabric == "ib:fe80:0000:0000:0001")
        hcas.append(llmgw_fabric_env(chosen, LAUNCH)["NCCL_IB_HCA"])
    assert hcas == ["=mthca0:1", "=mthca0:2"]


@pytest.mark.parametrize("entry", samples("ibstat"))
def test_a_listing_of_ibstat_gives_the_facts_that_are_expected(entry: Mapping[str, Any]) -> None:
    facts = {port.key: port for port in parse((SAMPLES / entry["file"]).read_text())}
    assert list(facts) == [key for key, _, _ in expected_ports(entry)]
    for key, wanted, _ in expected_ports(entry):
        check_facts(facts[key], wanted)
    hints: defaultdict[str, list[str]] = defaultdict(list)
    for port in facts.values():
        if port.link_layer == "InfiniBand" and port.active:
            hints[f"sm_lid {port.sm_lid}"].append(f"{port.adapter.name}:{port.number}")
    assert hints == (entry["expected"].get("ib_fabric_hint") or {})


@pytest.mark.parametrize("entry", samples("ibstat"))
def test_a_listing_of_ibstat_gives_the_rails_that_are_expected(entry: Mapping[str, Any]) -> None:
    expected = entry["expected"]
    ports = parse((SAMPLES / entry["file"]).read_text())
    verdicts = [
        (port, reasons[0] if reasons else None) for port, reasons in zip(ports, judge(ports), strict=True)
    ]
    # ibstat tells no GIDs, so a RoCE rail is one that lacks nothing else.
    rails = [
        f"{p.adapter.name}:{p.number}" for p, reason in verdicts if not reason or reason.code == "no_gid"
    ]
    missing = [p.adapter.name for p, reason in verdicts if reason and "a rail is missing" in reason.text]
    assert rails == expected.get("compute_rails", [])
    assert missing == expected.get("rails_down_same_card_type", [])


@pytest.mark.parametrize("entry", samples("ibstat"))
def test_where_sysfs_is_masked_ibstat_tells_the_ports(entry: Mapping[str, Any]) -> None:
    answer = CommandResult(code=255, stdout=(SAMPLES / entry["file"]).read_text())
    host = TreeHost(hidden=frozenset({CLASS}), commands={("ibstat",): answer})
    ports = llmgw_fabric_discover(host)
    addressed = tuple(with_an_address(port) for port in ports)
    env = llmgw_fabric_env(tuple(port for port in addressed if port.usable), LAUNCH)
    assert env.get("NCCL_IB_HCA") == entry["expected"]["suggested_NCCL_IB_HCA"]
    assert {port.fabric for port in ports} == {None}


def with_an_address(port: FabricPort) -> FabricPort:
    """The port as it would be, had ibstat told of its GIDs."""
    codes = {reason.code for reason in port.reasons}
    return port.model_copy(update={"usable": not codes - {"no_gid"}})


def test_a_listing_of_ibstatus_is_what_sysfs_has_and_read_alike() -> None:
    entry = sample("ibstat/roce-2x100.ibstatus")
    ports = llmgw_fabric_discover(TreeHost(files_of_ibstatus((SAMPLES / entry["file"]).read_text())))
    assert [(port.device, port.port) for port in ports] == [key for key, _, _ in expected_ports(entry)]
    for port, (_, wanted, _) in zip(ports, expected_ports(entry), strict=True):
        assert (port.active, port.rate_gbps) == (wanted["active"], wanted["rate_gbps"])
        # The default gid of an Ethernet port is a link-local address: no fabric, and nothing to send from.
        assert (port.link_layer, port.fabric, port.subnet_prefix) == ("roce", None, None)
        assert [reason.code for reason in port.reasons] == ["no_gid"]


def files_of_ibstatus(text: str) -> dict[str, str]:
    """The files that ibstatus, a shell script, has printed."""
    names = {"default gid": "gids/0", "base lid": "lid", "sm lid": "sm_lid", "phys state": "phys_state"}
    files: dict[str, str] = {}
    base = ""
    for line in text.splitlines():
        if device := re.match(r"Infiniband device '(\S+)' port (\d+)", line):
            base = f"{CLASS}/{device[1]}/ports/{device[2]}"
        elif line.strip():
            name, _, value = line.strip().partition(":")
            files[f"{base}/{names.get(name, name)}"] = value.strip() + "\n"
    return files


def test_an_ipoib_interface_that_is_down_says_nothing_of_its_port() -> None:
    entry = sample("ibstat/h100-12ca.ibdev2netdev")
    lines = (SAMPLES / entry["file"]).read_text().splitlines()
    files: dict[str, str] = {}
    for device, _, number, _, netdev, state in map(str.split, lines):
        ethernet = netdev.startswith("en")
        files |= port_files(device, number, "Ethernet" if ethernet else "InfiniBand")
        files[f"{CLASS}/{device}/device/net/{netdev}/operstate"] = f"{state.strip('()').lower()}\n"
    ports = llmgw_fabric_discover(TreeHost(files))
    assert {port.device: port.netdev for port in ports} == entry["expected"]["map"]
    usable = [port.device for port in ports if port.usable]
    assert len(usable) == 8
    assert all(port.link_layer == "infiniband" for port in ports if port.usable)


def port_files(device: str, number: str, layer: str) -> dict[str, str]:
    base = f"{CLASS}/{device}/ports/{number}"
    return {f"{base}/state": "4: ACTIVE\n", f"{base}/link_layer": f"{layer}\n"}
