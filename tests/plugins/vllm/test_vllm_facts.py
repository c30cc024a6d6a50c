"""What the plugin says of vLLM, against what vLLM printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import EngineInfo, parse_version_range

SAMPLE = Path(__file__).parents[4] / "shared" / "engines" / "vllm" / "metrics-0.32.0.txt"


@pytest.fixture(scope="module")
def info() -> EngineInfo:
    host = PluginHost.load(only="vllm")
    assert host.refused == ()
    return host.engines["vllm"]


@pytest.mark.parametrize(
    ("output", "version"),
    (
        ("INFO 11-29 Triton is installed, 0 active drivers\n0.32.0+cpu\n", "0.32.0+cpu"),
        ("0.33.0\n", "0.33.0"),
        ("0.11.0.post2\n", "0.11.0.post2"),
    ),
)
def test_the_version_is_found_in_what_the_engine_prints(info: EngineInfo, output: str, version: str) -> None:
    found = re.search(info.binary.version_pattern, output)
    assert found is not None
    assert found[1] == version


@pytest.mark.parametrize(
    ("version", "kv_usage"),
    (
        ("0.8.5", "vllm:gpu_cache_usage_perc"),
        ("0.9.2", "vllm:gpu_cache_usage_perc"),
        ("0.10.0", "vllm:kv_cache_usage_perc"),
        ("0.11.0.post2", "vllm:kv_cache_usage_perc"),
        ("0.32.0+cpu", "vllm:kv_cache_usage_perc"),
        ("0.33.0", "vllm:kv_cache_usage_perc"),
    ),
)
def test_every_release_has_one_metric_contract(info: EngineInfo, version: str, kv_usage: str) -> None:
    holding = [one for one in info.metrics if parse_version_range(one.versions).contains(info, version)]
    assert [one.signals.kv_usage for one in holding] == [kv_usage]


def test_the_metrics_are_those_that_the_engine_really_has(info: EngineInfo) -> None:
    if not SAMPLE.exists():
        pytest.skip("no recorded metrics of vLLM 0.32.0 beside this checkout")
    offered = set(re.findall(r"^# TYPE (\S+)", SAMPLE.read_text(), re.MULTILINE))
    (newest,) = [one for one in info.metrics if parse_version_range(one.versions).contains(info, "0.32.0")]
    assert set(newest.signals.model_dump().values()) <= offered


def test_the_port_that_listens_everywhere_is_declared(info: EngineInfo) -> None:
    assert [(need.name, need.scope, need.ranks) for need in info.ports] == [
        ("rendezvous", "all_ranks_interface", "leader")
    ]
