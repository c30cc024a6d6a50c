"""The variables that make NCCL, Gloo and UCX use exactly the chosen ports."""

from __future__ import annotations

from typing import Any

import pytest
from llmgw_core.spec import FabricPort, Launch, Reason, Unsupported
from llmgw_fabric_ib import llmgw_fabric_env


def a_launch(interface: str | None = None) -> Launch:
    return Launch(binary=("engine",), version="1", interface=interface, work_dir="/w", log_dir="/l")


def ib(device: str, number: int = 1, **fields: Any) -> FabricPort:
    return FabricPort(
        **(
            {"device": device, "port": number, "link_layer": "infiniband", "active": True, "usable": True}
            | fields
        )
    )


def roce(device: str, gid_index: int | None, network: str | None) -> FabricPort:
    return ib(device, link_layer="roce", gid_index=gid_index, network=network)


def env(*ports: FabricPort, interface: str | None = None) -> dict[str, str]:
    return dict(llmgw_fabric_env(ports, a_launch(interface)))


def test_no_ports_need_nothing() -> None:
    assert env(interface="eth0") == {}


def test_infiniband_gets_exact_names_and_no_gid() -> None:
    assert env(ib("mlx5_1"), ib("mlx5_10", 2)) == {
        "NCCL_IB_HCA": "=mlx5_1:1,mlx5_10:2",
        "NCCL_NET": "IB",
        "UCX_NET_DEVICES": "mlx5_1:1,mlx5_10:2",
    }


def test_control_traffic_takes_one_exact_name() -> None:
    found = env(ib("mlx5_0"), interface="bond0")
    assert found["NCCL_SOCKET_IFNAME"] == "=bond0"
    assert found["GLOO_SOCKET_IFNAME"] == found["TP_SOCKET_IFNAME"] == "bond0"
    assert found["UCX_NET_DEVICES"] == "mlx5_0:1,bond0"


def addresses(*ports: FabricPort) -> dict[str, str]:
    return {
        name: value for name, value in env(*ports).items() if name.startswith(("NCCL_IB_GID", "NCCL_IB_ADDR"))
    }


def test_roce_gets_the_gid_index_that_all_ports_share() -> None:
    ports = (roce("mlx5_0", 5, "192.0.2.0/31"), roce("mlx5_1", 5, None))
    assert addresses(*ports) == {"NCCL_IB_GID_INDEX": "5"}


@pytest.mark.parametrize(
    ("networks", "covering"),
    (
        (("192.0.2.0/24", "192.0.2.0/24"), "192.0.2.0/24"),
        (("192.0.2.0/31", "192.0.2.2/31"), "192.0.2.0/30"),
        (("10.1.0.0/16", "10.0.3.0/24"), "10.0.0.0/15"),
        (("10.0.0.0/8", "192.0.2.0/24"), "0.0.0.0/0"),
    ),
)
def test_roce_with_uneven_indices_gets_the_network_of_all_ports(
    networks: tuple[str, str], covering: str
) -> None:
    ports = (roce("mlx5_0", 3, networks[0]), roce("mlx5_1", 5, networks[1]))
    assert addresses(*ports) == {"NCCL_IB_ADDR_RANGE": covering}


def test_roce_with_an_unknown_network_leaves_the_choice_to_nccl() -> None:
    assert addresses(roce("mlx5_0", 3, "192.0.2.0/24"), roce("mlx5_1", 5, None)) == {}


def test_infiniband_and_roce_are_refused_together() -> None:
    with pytest.raises(Unsupported, match="cannot be used together"):
        env(ib("mlx5_0"), roce("mlx5_1", 3, None))


def test_a_port_that_went_down_is_refused_by_name() -> None:
    down = ib("mlx5_1", active=False, usable=False, reasons=(Reason(code="down", text="the port is down"),))
    with pytest.raises(Unsupported, match="mlx5_1:1 cannot be used: the port is down") as caught:
        env(ib("mlx5_0"), down)
    assert caught.value.field == "hca_ports"


@pytest.mark.parametrize("name", ("a,b", "^mlx5_0", "=mlx5_0", "mlx5 0", "mlx5_0\n", ""))
def test_a_name_that_would_mean_something_else_to_nccl_is_refused(name: str) -> None:
    with pytest.raises(Unsupported, match="cannot be named to NCCL"):
        env(ib(name))


def test_ports_of_another_kind_are_left_to_their_own_plugin() -> None:
    assert env(ib("efa_0", link_layer="other"), interface="eth0") == {}
    assert env(ib("efa_0", link_layer="other"), ib("mlx5_0"))["NCCL_IB_HCA"] == "=mlx5_0:1"
