"""Calls of hooks: one plugin at a time, its faults attributed to it, its results' types checked."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import pytest
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import (
    CommandResult,
    Epoch,
    FabricPort,
    Launch,
    Peer,
    PluginFailed,
    ProbeResponse,
    Profile,
    Shard,
    Unsupported,
)

if TYPE_CHECKING:
    from .conftest import Shelf

SHARD = Shard(
    shard="r-abcdefghij/0",
    replica="r-abcdefghij",
    rank=0,
    world=1,
    epoch=Epoch(number=1, control="c"),
    catalog_revision="1",
    revision="0" * 12,
    model="tiny",
    served_name="tiny",
    source="/models/tiny",
    engine="sample",
    profile=Profile(name="cpu", engine="sample"),
    peers=(Peer(node="n", address="127.0.0.1"),),
    address="127.0.0.1",
    leader_address="127.0.0.1",
    http_port=20001,
)
LAUNCH = Launch(binary=("/opt/engine",), version="1", work_dir="/w", log_dir="/l")
PORT = FabricPort(device="mlx5_0", port=1, link_layer="roce")


class NoHost:
    """A host that has nothing."""

    def read_text(self, path: str) -> str | None:
        return None

    def list_dir(self, path: str) -> tuple[str, ...] | None:
        return None

    def run(self, argv: tuple[str, ...], timeout: float) -> CommandResult | None:
        return None


def commands(host: PluginHost, plugin: str = "sample") -> Any:
    return host.call_one(plugin, "llmgw_engine_commands", shard=SHARD, launch=LAUNCH)


def ready(host: PluginHost, responses: dict[str, ProbeResponse]) -> Any:
    return host.call_one("sample", "llmgw_engine_ready", shard=SHARD, responses=responses)


def replaced(body: str, hook: str = "llmgw_engine_commands(shard, launch)") -> str:
    return f"\n@hookimpl\ndef {hook}: {body}\n"


def test_a_call_gets_the_arguments_by_name_and_gives_the_value(shelf: Shelf) -> None:
    shelf.engine("sample")
    (command,) = commands(shelf.host())
    assert command.argv == ("/opt/engine", "/models/tiny")


def test_an_implementation_may_leave_out_arguments_and_change_their_order(shelf: Shelf) -> None:
    body = "return (Command(name='engine', argv=launch.binary, env={'MODEL': shard.model}),)"
    shelf.engine("sample", replaced(body, "llmgw_engine_commands(launch, shard)"))
    host = shelf.host()
    assert commands(host)[0].env == {"MODEL": "tiny"}
    assert ready(host, {"startup": ProbeResponse(status=200)}).ready
    assert not ready(host, {}).ready


def test_an_optional_result_may_be_none(shelf: Shelf) -> None:
    shelf.engine("sample")
    assert shelf.host().call_one("sample", "llmgw_engine_probes", shard=SHARD, launch=LAUNCH) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    (
        ("raise ZeroDivisionError('oh')", "ZeroDivisionError: oh"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise LlmgwError('mine')", "LlmgwError: mine"),
        ("return None", "it gave a NoneType, wanted tuple[Command, ...]"),
        ("return [Command(name='e', argv=())]", "it gave a list, wanted tuple[Command, ...]"),
        ("return ({'name': 'e', 'argv': ()},)", "it gave a tuple of dict, wanted tuple[Command, ...]"),
        ("yield Command(name='e', argv=())", "it gave a generator, wanted tuple[Command, ...]"),
    ),
)
def test_a_fault_of_a_plugin_is_attributed_to_it_and_its_hook(shelf: Shelf, body: str, expected: str) -> None:
    shelf.engine("sample", replaced(body))
    with pytest.raises(PluginFailed) as caught:
        commands(shelf.host())
    assert (caught.value.plugin, caught.value.hook) == ("sample", "llmgw_engine_commands")
    assert expected in caught.value.reason


def test_a_value_of_the_wrong_type_is_never_quoted(shelf: Shelf) -> None:
    shelf.engine("sample", replaced("return ('open sesame',)"))
    with pytest.raises(PluginFailed) as caught:
        commands(shelf.host())
    assert "sesame" not in str(caught.value)


def test_a_value_that_pydantic_refused_is_not_in_the_traceback_either(shelf: Shelf) -> None:
    shelf.engine("sample", replaced("return (Command(name='e', argv=(), secret_env={'K': ('sesame',)}),)"))
    with pytest.raises(PluginFailed) as caught:
        commands(shelf.host())
    assert "secret_env.K: Input should be a valid string" in str(caught.value)
    assert "sesame" not in "".join(traceback.format_exception(caught.value))


def test_unsupported_passes_through_as_itself(shelf: Shelf) -> None:
    shelf.engine("sample", replaced("raise Unsupported('lora', 'cannot')"))
    with pytest.raises(Unsupported) as caught:
        commands(shelf.host())
    assert (caught.value.field, caught.value.reason) == ("lora", "cannot")


@pytest.mark.parametrize("name", ("KeyboardInterrupt", "asyncio.CancelledError"))
def test_an_interrupt_and_a_cancellation_pass_through(shelf: Shelf, name: str) -> None:
    shelf.engine("sample", "import asyncio" + replaced(f"raise {name}"))
    with pytest.raises(BaseException, match=r"^$") as caught:
        commands(shelf.host())
    assert caught.type.__name__ == name.rpartition(".")[2]


def test_a_call_of_a_plugin_that_is_not_there_says_so(shelf: Shelf) -> None:
    shelf.engine("sample", "del llmgw_engine_ready")
    shelf.fabric("wires")
    host = shelf.host()
    for plugin, expected in (
        ("nobody", "no such plugin is loaded"),
        ("sample", "the plugin is not loaded: it is of kind engine but lacks llmgw_engine_ready"),
        ("wires", "the plugin does not have this hook"),
    ):
        with pytest.raises(PluginFailed, match=expected):
            commands(host, plugin)


def test_a_caller_has_to_name_a_hook_and_all_of_its_arguments(shelf: Shelf) -> None:
    shelf.engine("sample")
    host = shelf.host()
    with pytest.raises(TypeError, match="llmgw_engine_commands is not a hook with the arguments shard"):
        host.call_one("sample", "llmgw_engine_commands", shard=SHARD)
    with pytest.raises(TypeError, match="llmgw_nonsense is not a hook"):
        host.call_each("llmgw_nonsense")


def test_each_plugin_is_called_in_name_order_and_one_failure_stops_no_other(shelf: Shelf) -> None:
    shelf.fabric("delta")
    shelf.fabric("bravo", replaced("raise ValueError('cable')", "llmgw_fabric_discover(host)"))
    shelf.fabric("alpha")
    shelf.fabric("charlie", replaced("return 7", "llmgw_fabric_discover(host)"))
    shelf.engine("engine")
    outcomes = shelf.host().call_each("llmgw_fabric_discover", host=NoHost())
    assert [outcome.plugin for outcome in outcomes] == ["alpha", "bravo", "charlie", "delta"]
    alpha, bravo, charlie, delta = outcomes
    assert [port.device for port in (*alpha.value, *delta.value)] == ["alpha", "delta"]
    assert "bravo: llmgw_fabric_discover failed: ValueError: cable" in str(bravo.error)
    assert "charlie: llmgw_fabric_discover failed: it gave a int" in str(charlie.error)
    assert (bravo.value, alpha.error) == (None, None)


def test_a_refusal_of_one_plugin_is_its_outcome(shelf: Shelf) -> None:
    shelf.fabric("alpha", replaced("raise Unsupported('fabric', 'no ports')", "llmgw_fabric_env(ports)"))
    (outcome,) = shelf.host().call_each("llmgw_fabric_env", ports=(PORT,), launch=LAUNCH)
    assert isinstance(outcome.error, Unsupported)


def test_a_read_only_mapping_is_a_good_mapping_and_wrong_items_are_not(shelf: Shelf) -> None:
    shelf.fabric("alpha", replaced("return types.MappingProxyType({'A': 'b'})", "llmgw_fabric_env(ports)"))
    shelf.fabric("bravo", replaced("return {'A': 1}", "llmgw_fabric_env(ports)"))
    source = shelf.directory / "dist_alpha.py"
    source.write_text("import types\n" + source.read_text())
    alpha, bravo = shelf.host().call_each("llmgw_fabric_env", ports=(PORT,), launch=LAUNCH)
    assert alpha.value == {"A": "b"}
    assert "it gave a dict of int, wanted Mapping[str, str]" in str(bravo.error)


def test_no_plugin_with_the_hook_means_no_outcome(shelf: Shelf) -> None:
    shelf.engine("sample")
    assert shelf.host().call_each("llmgw_fabric_discover", host=NoHost()) == ()
