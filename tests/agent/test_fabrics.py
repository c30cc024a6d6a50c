"""Labels and exclusions of agent.yaml, over the ports that a fabric plugin found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from llmgw_agent.cli import agent
from llmgw_agent.discovery import discover
from llmgw_agent.fabrics import with_operators_word
from llmgw_core.config import AgentConfig
from llmgw_core.config_file import load
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import ConfigError, FabricPort, Reason
from llmgw_core.testing.hosts import TreeHost

WEAK = "ib:fe80:0000:0000:0000/sm:1"


def a_config(**fields: Any) -> AgentConfig:
    base: dict[str, Any] = {
        "control_planes": ("http://h:1",),
        "token_file": "t",
        "state_dir": "s",
        "node": "n1",
    }
    return AgentConfig.model_validate(base | fields)


def a_port(device: str = "mlx5_0", number: int = 1, *reasons: str, **fields: Any) -> FabricPort:
    base: dict[str, Any] = {"active": True, "fabric": WEAK, "fabric_strength": "weak", "usable": not reasons}
    told = tuple(Reason(code=code) for code in reasons)
    return FabricPort(device=device, port=number, link_layer="infiniband", reasons=told, **(base | fields))


def told(ports: tuple[FabricPort, ...], **fields: Any) -> tuple[FabricPort, ...]:
    return with_operators_word(ports, a_config(**fields))[0]


def test_without_a_word_of_the_operator_nothing_changes() -> None:
    ports = (a_port(), a_port("mlx5_1", 1, "down", active=False))
    assert with_operators_word(ports, a_config()) == (ports, ())


@pytest.mark.parametrize("entry", ("mlx5_0", "mlx5_0:1", WEAK))
def test_a_label_wins_over_the_found_fabric(entry: str) -> None:
    (port,) = told((a_port(),), fabrics={"ib-a": (entry,)})
    assert (port.fabric, port.fabric_strength, port.usable) == ("ib-a", "label", True)


def test_a_label_wins_over_a_strong_key() -> None:
    (port,) = told((a_port(fabric="ib:x", fabric_strength="strong"),), fabrics={"ib-a": ("mlx5_0",)})
    assert (port.fabric, port.fabric_strength) == ("ib-a", "label")


def test_the_most_exact_entry_counts() -> None:
    ports = (a_port("mlx4_0", 1), a_port("mlx4_0", 2), a_port("mlx4_1"))
    fabrics = {"all": (WEAK,), "card": ("mlx4_0",), "port": ("mlx4_0:2",)}
    assert [port.fabric for port in told(ports, fabrics=fabrics)] == ["card", "port", "all"]


def test_a_name_is_no_prefix() -> None:
    ports = (a_port("mlx5_1"), a_port("mlx5_10"))
    assert [port.fabric for port in told(ports, fabrics={"ib-a": ("mlx5_1",)})] == ["ib-a", WEAK]
    assert [port.usable for port in told(ports, exclude_hcas=("mlx5_1",))] == [False, True]


def test_a_label_makes_a_rail_of_what_was_thought_to_be_none() -> None:
    (port,) = told((a_port("mlx5_0", 1, "not_a_rail"),), fabrics={"ib-a": ("mlx5_0",)})
    assert (port.usable, port.reasons) == (True, ())


@pytest.mark.parametrize("code", ("down", "no_gid", "unreadable", "other_link_layer"))
def test_a_label_does_not_make_usable_what_cannot_work(code: str) -> None:
    ports = (a_port("mlx5_0", 1, "not_a_rail", code, active=code != "down"),)
    (port,) = told(ports, fabrics={"ib-a": ("mlx5_0",)})
    assert (port.usable, [reason.code for reason in port.reasons]) == (False, [code])


@pytest.mark.parametrize("entry", ("mlx5_0", "mlx5_0:1"))
def test_what_is_excluded_is_listed_and_not_usable(entry: str) -> None:
    (port,) = told((a_port(),), exclude_hcas=(entry,), fabrics={"ib-a": (WEAK,)})
    assert (port.usable, port.fabric) == (False, "ib-a")
    assert [(reason.code, reason.text) for reason in port.reasons] == [
        ("excluded", "excluded in the agent's config")
    ]


def test_an_exclusion_of_one_port_leaves_the_other() -> None:
    ports = (a_port("mlx4_0", 1), a_port("mlx4_0", 2, "down", active=False))
    one, two = told(ports, exclude_hcas=("mlx4_0:2",))
    assert one == ports[0]
    assert [reason.code for reason in two.reasons] == ["down", "excluded"]


def test_a_name_that_meets_no_adapter_is_a_problem_of_the_node() -> None:
    config = a_config(
        exclude_hcas=("mlx5_0", "mlx5_8"), fabrics={"a": ("mlx5_0:2", "ib:other", "roce:10.0.0.0/8")}
    )
    _, problems = with_operators_word((a_port(),), config)
    assert problems == (
        "fabrics: this node has no adapter mlx5_0:2; `llmgw agent inventory` lists those it has",
        "exclude_hcas: this node has no adapter mlx5_8; `llmgw agent inventory` lists those it has",
    )


def test_the_report_of_a_node_has_the_operators_word() -> None:
    base = "/sys/class/infiniband/mlx5_0/ports/1"
    host = TreeHost({f"{base}/state": "4: ACTIVE\n", f"{base}/link_layer": "InfiniBand\n"})
    config = a_config(fabrics={"ib-a": ("mlx5_0",)}, exclude_hcas=("mlx5_9",))
    report = discover(config, PluginHost.load(only="fabric-ib"), host, {})
    assert [(port.device, port.fabric, port.usable) for port in report.fabric_ports] == [
        ("mlx5_0", "ib-a", True)
    ]
    assert [problem for problem in report.problems if "mlx5_9" in problem]


def test_an_adapter_under_two_labels_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(
        "control_planes: [http://h:1]\ntoken_file: t\nstate_dir: s\n"
        "fabrics: {ib-a: [mlx5_0, mlx5_1:1], ib-b: [mlx5_0]}\n"
    )
    with pytest.raises(ConfigError, match="mlx5_0 is listed twice; a port is on one fabric"):
        load(AgentConfig, file)


def test_inventory_shows_the_fabric_of_each_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = "/sys/class/infiniband/mlx5_{}/ports/1"
    files = {f"{base.format(n)}/{name}": text for n in (0, 1) for name, text in FACTS.items()}
    monkeypatch.setattr("llmgw_agent.host.LinuxHost", lambda: TreeHost(files))
    file = tmp_path / "agent.yaml"
    file.write_text(
        "control_planes: [http://127.0.0.1:1]\ntoken_file: t\nstate_dir: s\nnode: n1\naddress: 127.0.0.1\n"
        "fabrics: {ib-a: [mlx5_0]}\nexclude_hcas: [mlx5_1]\n"
    )
    shown = CliRunner().invoke(agent, ["inventory", "--config", str(file)])
    assert shown.exit_code == 0, shown.output
    assert "mlx5_0:1  infiniband  400 Gb/s  ib-a (label)  usable" in shown.output
    assert "mlx5_1:1  infiniband  400 Gb/s  fabric unknown  excluded in the agent's config" in shown.output


FACTS = {"state": "4: ACTIVE\n", "link_layer": "InfiniBand\n", "rate": "400 Gb/sec (4X NDR)\n"}
