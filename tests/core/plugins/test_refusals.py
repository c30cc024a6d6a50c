"""Every way in which a plugin that imports well is refused, and what its author is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Shelf


def info(name: str = "sample", kind: str = "engine", api: str = "HOOK_API") -> str:
    return f"""
@hookimpl
def llmgw_plugin_info() -> PluginInfo:
    return PluginInfo(name={name!r}, kind={kind!r}, api={api}, summary="")
"""


REFUSALS = {
    "no info": ("del llmgw_plugin_info", "it has no llmgw_plugin_info hook"),
    "info raises": (
        "@hookimpl\ndef llmgw_plugin_info(): raise OSError('disk on fire')",
        "llmgw_plugin_info failed: OSError: disk on fire",
    ),
    "info of the wrong type": (
        "@hookimpl\ndef llmgw_plugin_info(): return {'name': 'sample'}",
        "llmgw_plugin_info failed: it gave a dict of str, wanted PluginInfo",
    ),
    "info takes an argument": (
        "@hookimpl\ndef llmgw_plugin_info(host): ...",
        "llmgw_plugin_info has arguments that the hook does not have: host",
    ),
    "unknown kind": (info(kind="oracle"), "llmgw_plugin_info failed: ValidationError: kind: Input should be"),
    "other name": (info(name="simple"), "says name='simple', but its entry point is 'sample'"),
    "newer API": (
        info(api="HOOK_API + 1"),
        "it is written for HOOK_API 2, this llmgw-core supports 1; "
        "install a newer llmgw-core, or an older release of dist-sample",
    ),
    "older API": (
        info(api="HOOK_API - 1"),
        "it is written for HOOK_API 0, this llmgw-core supports 1; "
        "install a newer release of dist-sample, or an older llmgw-core",
    ),
    "unknown hook": (
        "@hookimpl\ndef llmgw_engine_comands(shard): ...",
        "llmgw_engine_comands is not a hook of llmgw; did you mean llmgw_engine_commands?",
    ),
    "unknown argument": (
        "@hookimpl\ndef llmgw_engine_ready(shard: Shard, answers: str) -> Readiness: ...",
        "llmgw_engine_ready has arguments that the hook does not have: answers\n"
        "  the hook:   llmgw_engine_ready(shard: Shard, responses: Mapping[str, ProbeResponse])"
        " -> Readiness\n"
        "  the plugin: llmgw_engine_ready(shard: llmgw_core.spec.shard.Shard, answers: str) -> "
        "llmgw_core.spec.engine.Readiness",
    ),
    "default argument": (
        "@hookimpl\ndef llmgw_engine_probes(shard, launch=None): return None",
        "llmgw_engine_probes gives launch a default; the host passes every argument, remove it",
    ),
    "star arguments": (
        "@hookimpl\ndef llmgw_engine_probes(*everything): return None",
        "llmgw_engine_probes takes *everything; only plain arguments of the hook are passed",
    ),
    "keyword-only argument": (
        "@hookimpl\ndef llmgw_engine_probes(*, shard): return None",
        "llmgw_engine_probes takes shard; only plain arguments",
    ),
    "async": (
        "@hookimpl\nasync def llmgw_engine_probes(shard): return None",
        "llmgw_engine_probes is async; hooks are synchronous",
    ),
    "async generator": (
        "@hookimpl\nasync def llmgw_engine_probes(shard): yield",
        "llmgw_engine_probes is async; hooks are synchronous",
    ),
    "old wrapper": (
        "@hookimpl(hookwrapper=True)\ndef llmgw_engine_probes(shard): yield",
        "llmgw_engine_probes is a hook wrapper; a plugin may not wrap the hooks of others "
        "(remove hookwrapper from @hookimpl)",
    ),
    "wrapper": (
        "@hookimpl(wrapper=True)\ndef llmgw_engine_probes(shard): yield",
        "llmgw_engine_probes is a hook wrapper; a plugin may not wrap the hooks of others "
        "(remove wrapper from @hookimpl)",
    ),
    "tryfirst": (
        "@hookimpl(tryfirst=True)\ndef llmgw_engine_probes(shard): return None",
        "llmgw_engine_probes asks to be called first; plugins are called in the order of their names",
    ),
    "trylast": (
        "@hookimpl(trylast=True)\ndef llmgw_engine_probes(shard): return None",
        "llmgw_engine_probes asks to be called last; plugins are called in the order of their names",
    ),
    "specname": (
        "@hookimpl(specname='llmgw_engine_probes')\ndef probes(shard): return None",
        "probes is given as an implementation of another name; name the function as the hook",
    ),
    "not marked": (
        "def llmgw_engine_ready(shard): ...",
        "llmgw_engine_ready is defined but not marked; put @hookimpl",
    ),
    "missing hooks": (
        "del llmgw_engine_commands, llmgw_engine_ready",
        "it is of kind engine but lacks llmgw_engine_commands, llmgw_engine_ready",
    ),
    "hook of another kind": (
        "@hookimpl\ndef llmgw_fabric_discover(host): return ()",
        "it is of kind engine but has llmgw_fabric_discover; give that an entry point of its own",
    ),
    "engine info raises": (
        "@hookimpl\ndef llmgw_engine_info(): raise Unsupported('engine', 'not today')",
        "llmgw_engine_info failed: not today",
    ),
    "engine of another name": (
        "@hookimpl\ndef llmgw_engine_info(): "
        "return EngineInfo(name='simple', title='', binary=BinarySpec(names=()), paths=())",
        "llmgw_engine_info says name='simple'; an engine bears its plugin's name, 'sample'",
    ),
    "scoring without hooks": (
        info(kind="scoring") + "del llmgw_engine_info, llmgw_engine_commands\n"
        "del llmgw_engine_probes, llmgw_engine_ready",
        "it is of kind scoring but has none of the hooks llmgw_placement_*",
    ),
    "attribute that raises": (
        "def __dir__(): raise LookupError('nothing to see')",
        "it cannot be loaded: LookupError: nothing to see",
    ),
}


@pytest.mark.parametrize(("extra", "expected"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_plugin_is_refused_with_its_reason(shelf: Shelf, extra: str, expected: str) -> None:
    shelf.engine("sample", extra)
    refused = shelf.refusal()
    assert (refused.name, refused.dist) == ("sample", "dist-sample")
    assert expected in refused.reason


@pytest.mark.parametrize(("extra", "_"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refused_plugin_leaves_nothing_behind_for_the_others(shelf: Shelf, extra: str, _: str) -> None:
    shelf.engine("sample", extra)
    shelf.engine("zulu")
    host = shelf.host()
    assert [loaded.info.name for loaded in host.plugins] == ["zulu"]
    assert list(host.engines) == ["zulu"]
    assert [outcome.plugin for outcome in host.call_each("llmgw_plugin_info")] == ["zulu"]
    assert [outcome.plugin for outcome in host.call_each("llmgw_engine_info")] == ["zulu"]


def test_another_api_is_told_before_the_faults_that_follow_from_it(shelf: Shelf) -> None:
    shelf.engine("sample", info(api="HOOK_API + 1") + "@hookimpl\ndef llmgw_engine_ready(future): ...")
    assert "HOOK_API 2" in shelf.refusal().reason


def test_a_hook_of_a_newer_core_may_be_marked_optional(shelf: Shelf) -> None:
    shelf.engine("sample", "@hookimpl(optionalhook=True)\ndef llmgw_engine_tomorrow(shard): ...")
    assert list(shelf.host().engines) == ["sample"]


def test_a_pydantic_error_never_quotes_its_input(shelf: Shelf) -> None:
    shelf.engine("sample", "@hookimpl\ndef llmgw_plugin_info(): return PluginInfo(name=('sesame',))")
    reason = shelf.refusal().reason
    assert "name: Input should be a valid string" in reason
    assert "sesame" not in reason
