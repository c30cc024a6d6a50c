"""Where sysfs is not readable: ibstat is asked, with a limit, and nothing that is garbled ever raises."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmgw_core.spec import CommandResult, FabricPort, Launch, Unsupported
from llmgw_core.testing.hosts import TreeHost
from llmgw_fabric_ib import llmgw_fabric_discover, llmgw_fabric_env
from llmgw_fabric_ib.ibstat import parse
from llmgw_fabric_ib.sysfs import read_ports

CLASS = "/sys/class/infiniband"
LISTING = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 75
\t\tSM lid: 334
\t\tLink layer: InfiniBand
CA 'mlx5_1'
\tCA type: MT4129
\tNumber of ports: 2
\tPort 1:
\t\tState: Down
\t\tPhysical state: Polling
\t\tRate: 40
\t\tBase lid: 65535
\t\tSM lid: 0
\t\tLink layer: InfiniBand
\tPort 2:
\t\tState: Initializing
\t\tPhysical state: LinkUp
\t\tRate: 2.5
\t\tLink layer: Ethernet
ibpanic: [1] main: stat of IB device 'mlx5_2' failed: No such file or directory
"""
ANSWER: Mapping[tuple[str, ...], CommandResult] = {("ibstat",): CommandResult(code=255, stdout=LISTING)}
READABLE = {"state": "4: ACTIVE\n", "link_layer": "InfiniBand\n", "rate": "200 Gb/sec (4X HDR)\n"}


def sysfs(device: str, **facts: str) -> dict[str, str | None]:
    return {f"{CLASS}/{device}/ports/1/{name}": text for name, text in facts.items()}


def brief(port: FabricPort) -> tuple[str, int, float, tuple[str, ...]]:
    return port.device, port.port, port.rate_gbps, tuple(reason.code for reason in port.reasons)


def test_a_listing_gives_states_rates_and_lids() -> None:
    facts = [
        (p.key, p.state, p.physical_state, p.rate_gbps, p.lid, p.sm_lid, p.adapter.card)
        for p in parse(LISTING)
    ]
    assert facts == [
        (("mlx5_0", 1), 4, "LinkUp", 400.0, 75, 334, "MT4129"),
        (("mlx5_1", 1), 1, "Polling", 40.0, None, None, "MT4129"),
        (("mlx5_1", 2), 2, "LinkUp", 2.5, None, None, "MT4129"),
    ]


def test_a_listing_cut_off_in_the_middle_gives_what_is_whole() -> None:
    for end in range(len(LISTING)):
        keys = [port.key for port in parse(LISTING[:end])]
        assert keys == [port.key for port in parse(LISTING)][: len(keys)]


def test_a_readable_sysfs_is_believed_and_ibstat_is_not_run() -> None:
    host = TreeHost(sysfs("mlx5_0", **READABLE), commands=ANSWER)
    (port,) = llmgw_fabric_discover(host)
    assert brief(port) == ("mlx5_0", 1, 200.0, ())
    assert "ibstat" not in host.asked


def test_a_node_without_adapters_runs_nothing() -> None:
    host = TreeHost({"/sys/class/net/lo/type": "772\n"}, commands=ANSWER)
    assert llmgw_fabric_discover(host) == ()
    assert "ibstat" not in host.asked


def test_a_class_that_may_not_be_listed_is_told_by_ibstat() -> None:
    host = TreeHost(hidden=frozenset({CLASS}), commands=ANSWER)
    assert [brief(port) for port in llmgw_fabric_discover(host)] == [
        ("mlx5_0", 1, 400.0, ()),
        ("mlx5_1", 1, 0.0, ("down",)),
        ("mlx5_1", 2, 0.0, ("down",)),
    ]


def test_only_ports_that_cannot_be_read_are_told_by_ibstat() -> None:
    files = sysfs("mlx5_0", **READABLE) | sysfs("mlx5_1", state="?") | {f"{CLASS}/mlx5_7/node_type": None}
    ports = llmgw_fabric_discover(TreeHost(files, commands=ANSWER))
    assert [brief(port) for port in ports] == [
        ("mlx5_0", 1, 200.0, ()),
        ("mlx5_1", 1, 0.0, ("down",)),
        ("mlx5_1", 2, 0.0, ("down",)),
        ("mlx5_7", 1, 0.0, ("unreadable",)),
    ]


def test_the_readable_port_of_an_adapter_is_believed_beside_one_that_is_not() -> None:
    files = sysfs("mlx5_1", **READABLE) | {f"{CLASS}/mlx5_1/ports/2/state": None}
    ports = llmgw_fabric_discover(TreeHost(files, commands=ANSWER))
    assert [brief(port) for port in ports] == [("mlx5_1", 1, 200.0, ()), ("mlx5_1", 2, 0.0, ("down",))]


@pytest.mark.parametrize(
    ("text", "lid"),
    (("0x96\n", 150), ("0x0\n", None), ("0xffff\n", None), ("0xffffffff", None), ("150", None), ("", None)),
)
def test_a_lid_that_nobody_has_given_is_none(text: str, lid: int | None) -> None:
    (port,) = read_ports(TreeHost(sysfs("mlx5_0", **READABLE, lid=text, sm_lid=text)))
    assert (port.lid, port.sm_lid) == (lid, lid)


def test_of_an_infiniband_table_only_the_first_entry_is_read() -> None:
    gids = {f"{CLASS}/mlx5_0/ports/1/gids/{index}": "0000:" * 7 + "0000\n" for index in range(128)}
    host = TreeHost(sysfs("mlx5_0", **READABLE) | gids)
    llmgw_fabric_discover(host)
    assert [path for path in host.asked if "/gids/" in path] == [f"{CLASS}/mlx5_0/ports/1/gids/0"]


def test_without_a_subnet_prefix_there_is_no_fabric() -> None:
    host = TreeHost(hidden=frozenset({CLASS}), commands=ANSWER)
    assert {port.fabric for port in llmgw_fabric_discover(host)} == {None}


def test_an_ibstat_that_hangs_leaves_the_ports_unreadable() -> None:
    host = TreeHost(sysfs("mlx5_0", state="?"), hangs=True)
    (port,) = llmgw_fabric_discover(host)
    assert [reason.code for reason in port.reasons] == ["unreadable"]
    assert host.waited == [5.0]


NAMES = st.sampled_from(("mlx5_0", "mlx5_1", "efa_0", "²", "", "a,b=c", "smi1"))
WORDS = """ports 1 2 0 5 ² ٣ 99999 state link_layer rate lid sm_lid phys_state gids gid_attrs types ndevs
device net eth0 uevent vpd physfn infiniband node_type"""
LINES = """4: ACTIVE|1: DOWN|InfiniBand|Ethernet|400 Gb/sec (4X NDR)|0x96|0xffffffff|RoCE v2|DRIVER=mlx5_core
|fe80:0000:0000:0001:0002:0000:0000:0001|0000:0000:0000:0000:0000:ffff:c000:0248
|eth0 C0A80000 00000000 0001 0 0 0 00FFFFFF 0|eth0 000200C0 00000000 0001 0 0 0 00FF00FF 0"""
PARTS = st.sampled_from(WORDS.split())
KNOWN = st.sampled_from(LINES.split("|"))
PATHS = st.one_of(
    st.builds(lambda name, parts: "/".join((CLASS, name, *parts)), NAMES, st.lists(PARTS, max_size=5)),
    st.builds(lambda name, file: f"{CLASS}/{name}/ports/1/{file}", NAMES, PARTS),
    st.sampled_from(
        ("/proc/net/route", "/sys/class/net/eth0/dev_port", "/sys/devices/virtual/infiniband/mlx5_0/x")
    ),
)
TEXTS = st.one_of(st.none(), KNOWN, st.text(max_size=40))


@given(
    files=st.dictionaries(PATHS, TEXTS, max_size=25),
    hidden=st.frozensets(PATHS, max_size=2),
    listing=st.one_of(st.text(max_size=200), st.just(LISTING)),
)
def test_no_tree_makes_it_raise(
    files: Mapping[str, str | None], hidden: frozenset[str], listing: str
) -> None:
    host = TreeHost(files, hidden=hidden, commands={("ibstat",): CommandResult(code=0, stdout=listing)})
    ports = llmgw_fabric_discover(host)
    assert ports == llmgw_fabric_discover(host)
    assert len({(port.device, port.port) for port in ports}) == len(ports)
    assert all(port.usable != bool(port.reasons) for port in ports)
    launch = Launch(binary=("engine",), version="1", interface="eth0", work_dir="/w", log_dir="/l")
    for port in ports:
        if port.usable and port.device.isascii() and port.device.isidentifier():
            assert llmgw_fabric_env((port,), launch)["NCCL_IB_HCA"] == f"={port.device}:{port.port}"
        elif not port.usable and port.link_layer != "other":
            with pytest.raises(Unsupported):
                llmgw_fabric_env((port,), launch)


@given(st.lists(st.sampled_from(LISTING.splitlines(keepends=True)), max_size=30), st.text(max_size=60))
def test_no_listing_of_ibstat_makes_it_raise(lines: list[str], noise: str) -> None:
    host = TreeHost(
        hidden=frozenset({CLASS}),
        commands={("ibstat",): CommandResult(code=1, stdout="".join(lines) + noise)},
    )
    ports = llmgw_fabric_discover(host)
    assert len({(port.device, port.port) for port in ports}) == len(ports)
    assert all(port.usable != bool(port.reasons) for port in ports)
