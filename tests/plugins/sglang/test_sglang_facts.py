"""What the plugin says of SGLang is what SGLang prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from llmgw_core.spec import Capability, FlagTable, parse_version_range
from llmgw_sglang import plugin

METRICS = Path(__file__).parents[4] / "shared" / "engines" / "sglang" / "metrics-0.5.23.txt"
INFO = plugin.llmgw_engine_info()


def test_the_version_is_found_in_what_it_prints() -> None:
    found = re.search(INFO.binary.version_pattern, "sglang version: 0.5.23\ngit revision: 16c8ff4\n")
    assert found is not None
    assert found[1] == "0.5.23"


def test_another_program_has_no_version() -> None:
    assert re.search(INFO.binary.version_pattern, "usage: sglang [-h] {serve,version}") is None


@pytest.mark.parametrize("version", ("0.4.0", "0.5.23", "0.6.0"))
def test_every_version_has_one_metric_contract(version: str) -> None:
    contracts = [one for one in INFO.metrics if parse_version_range(one.versions).contains(INFO, version)]
    assert len(contracts) == 1


def test_the_metrics_are_those_that_it_really_has() -> None:
    if not METRICS.exists():
        pytest.skip("no recorded metrics of SGLang 0.5.23 beside this checkout")
    offered = set(re.findall(r"^# TYPE (\S+)", METRICS.read_text(), re.MULTILINE))
    (contract,) = INFO.metrics
    assert set(contract.signals.model_dump().values()) <= offered


def test_the_key_does_not_come_from_the_environment() -> None:
    assert not INFO.supports(Capability.KEY_BY_ENVIRONMENT)


def test_the_rendezvous_is_declared_as_open_on_every_interface() -> None:
    (port,) = INFO.ports
    assert (port.name, port.scope, port.ranks) == ("rendezvous", "all_ranks_interface", "leader")
    # torch's store is there on a single node too.
    assert not port.only_multi_node


def test_only_paths_that_ask_for_the_key_are_routed() -> None:
    open_without_key = ("/health", "/ready", "/metrics")
    assert not any(path.startswith(open_without_key) for path in INFO.paths)


def test_the_tables_say_where_they_are_from() -> None:
    tables: dict[str, FlagTable] = {table.version: table for table in plugin.llmgw_engine_flags()}
    assert tables["0.5.23"].source == "captured help"
    assert tables["0.5.23"].complete
    assert tables["0.4.0"].source == "parsed sources"
    assert not tables["0.4.0"].complete
