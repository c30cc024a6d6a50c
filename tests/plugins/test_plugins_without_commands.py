"""vLLM: it loads, tells true facts, and refuses what it cannot do with the reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import (
    Capability,
    Epoch,
    Launch,
    Peer,
    Profile,
    Shard,
    Unsupported,
    parse_version_range,
)

ENGINES = ("vllm",)
SHARED = Path(__file__).parents[3] / "shared" / "engines"
LAUNCH = Launch(binary=("engine",), version="1", work_dir="/w", log_dir="/l")


@pytest.fixture(scope="module")
def host() -> PluginHost:
    return PluginHost.load(only="vllm")


def a_shard(engine: str) -> Shard:
    return Shard(
        shard="r-abcdefghij/0",
        replica="r-abcdefghij",
        rank=0,
        world=1,
        epoch=Epoch(number=1, control="c"),
        catalog_revision="1",
        revision="0" * 12,
        model="m",
        served_name="m",
        source="/m",
        engine=engine,
        profile=Profile(name="p", engine=engine),
        peers=(Peer(node="n", address="127.0.0.1"),),
        address="127.0.0.1",
        leader_address="127.0.0.1",
        http_port=20000,
    )


def test_the_installed_plugins_load_and_say_what_is_missing(host: PluginHost) -> None:
    assert host.refused == ()
    summaries = {loaded.info.name: loaded.info.summary for loaded in host.plugins}
    assert list(summaries) == ["vllm"]
    assert all("no commands yet" in summaries[engine] for engine in ENGINES)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("hook", ("llmgw_engine_commands", "llmgw_engine_probes"))
def test_every_profile_is_refused_with_the_reason(host: PluginHost, engine: str, hook: str) -> None:
    with pytest.raises(Unsupported, match="no commands yet"):
        host.call_one(engine, hook, shard=a_shard(engine), launch=LAUNCH)


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_ever_judged_ready(host: PluginHost, engine: str) -> None:
    readiness = host.call_one(engine, "llmgw_engine_ready", shard=a_shard(engine), responses={})
    assert not readiness.ready
    assert "no commands yet" in readiness.reason


@pytest.mark.parametrize(
    ("engine", "output", "version"),
    (
        ("vllm", "INFO 11-29 Triton is installed, 0 active drivers\n0.32.0+cpu\n", "0.32.0+cpu"),
        ("vllm", "0.33.0\n", "0.33.0"),
    ),
)
def test_the_version_is_found_in_what_the_engine_prints(
    host: PluginHost, engine: str, output: str, version: str
) -> None:
    found = re.search(host.engines[engine].binary.version_pattern, output)
    assert found is not None
    assert found[1] == version


@pytest.mark.parametrize(("engine", "version"), (("vllm", "0.32.0"),))
def test_the_metrics_are_those_that_the_engine_really_has(
    host: PluginHost, engine: str, version: str
) -> None:
    sample = SHARED / engine / f"metrics-{version}.txt"
    if not sample.exists():
        pytest.skip(f"no recorded metrics of {engine} {version} beside this checkout")
    offered = set(re.findall(r"^# TYPE (\S+)", sample.read_text(), re.MULTILINE))
    info = host.engines[engine]
    contracts = [one for one in info.metrics if parse_version_range(one.versions).contains(info, version)]
    (contract,) = contracts
    assert set(contract.signals.model_dump().values()) <= offered


def test_the_key_comes_from_the_environment(host: PluginHost) -> None:
    assert host.engines["vllm"].supports(Capability.KEY_BY_ENVIRONMENT)
