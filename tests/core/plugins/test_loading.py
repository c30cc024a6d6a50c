"""Which plugins a host finds, which it takes, and what it says about the rest."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import pytest
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import PluginRefused

if TYPE_CHECKING:
    from .conftest import Shelf


def test_installed_plugins_are_loaded_in_name_order_with_their_distributions(shelf: Shelf) -> None:
    for name in ("zeta", "alpha", "mid"):
        shelf.engine(name, version="1.2")
    host = shelf.host()
    assert [loaded.info.name for loaded in host.plugins] == ["alpha", "mid", "zeta"]
    assert {(loaded.dist, loaded.version) for loaded in host.plugins} == {
        ("dist-alpha", "1.2"),
        ("dist-mid", "1.2"),
        ("dist-zeta", "1.2"),
    }
    assert host.refused == ()
    assert list(host.engines) == ["alpha", "mid", "zeta"]


def test_a_fabric_plugin_is_loaded_and_is_no_engine(shelf: Shelf) -> None:
    shelf.fabric("wires")
    host = shelf.host()
    assert [loaded.info.kind for loaded in host.plugins] == ["fabric"]
    assert host.engines == {}


def test_a_name_claimed_twice_is_refused_for_both_and_both_are_named(shelf: Shelf) -> None:
    shelf.engine("twin", dist="dist-one")
    shelf.engine("twin", dist="dist-two")
    shelf.engine("other")
    host = shelf.host()
    assert [loaded.info.name for loaded in host.plugins] == ["other"]
    assert [(refused.name, refused.dist) for refused in host.refused] == [
        ("twin", "dist-one"),
        ("twin", "dist-two"),
    ]
    for refused in host.refused:
        assert "claimed by dist-one and dist-two" in refused.reason


@pytest.mark.parametrize(
    ("source", "expected"),
    (
        ("import a_module_that_is_not_there", "ModuleNotFoundError: No module named 'a_module_that_is_not"),
        ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
        ("import sys; sys.exit('goodbye')", "SystemExit: goodbye"),
        ("def broken(:", "SyntaxError: invalid syntax"),
    ),
)
def test_a_plugin_that_fails_to_import_is_a_refusal_and_stops_no_other(
    shelf: Shelf, source: str, expected: str
) -> None:
    shelf.add("bad", source)
    shelf.engine("good")
    host = shelf.host()
    assert [loaded.info.name for loaded in host.plugins] == ["good"]
    assert [refused.name for refused in host.refused] == ["bad"]
    assert expected in host.refused[0].reason


def test_an_interrupt_during_an_import_is_not_a_refusal(shelf: Shelf) -> None:
    shelf.add("slow", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        shelf.host()


def test_the_environment_variable_limits_what_is_imported(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.engine("wanted")
    shelf.add("unwanted", "raise RuntimeError('was imported')")
    monkeypatch.setenv("LLMGW_PLUGINS", " wanted , ")
    host = PluginHost.load()
    assert [loaded.info.name for loaded in host.plugins] == ["wanted"]
    assert host.refused == ()


def test_an_empty_environment_variable_means_no_plugin(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.engine("any")
    monkeypatch.setenv("LLMGW_PLUGINS", "")
    host = PluginHost.load()
    assert (host.plugins, host.refused) == ((), ())


def test_without_the_environment_variable_everything_installed_is_tried(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.engine("any")
    shelf.add("bad", "raise RuntimeError")
    monkeypatch.delenv("LLMGW_PLUGINS", raising=False)
    host = PluginHost.load()
    assert "any" in {loaded.info.name for loaded in host.plugins}
    assert "bad" in {refused.name for refused in host.refused}


def test_a_name_that_is_asked_for_but_not_installed_is_a_refusal(shelf: Shelf) -> None:
    shelf.engine("there")
    host = PluginHost.load(only="there,absent")
    assert [loaded.info.name for loaded in host.plugins] == ["there"]
    (refused,) = host.refused
    assert (refused.name, refused.dist) == ("absent", "")
    assert refused.reason.startswith("not installed")


def test_entry_points_may_be_given(shelf: Shelf) -> None:
    shelf.engine("given")
    entry_point = EntryPoint(name="given", value="dist_given", group="llmgw")
    (loaded,) = PluginHost.load([entry_point]).plugins
    assert (loaded.info.name, loaded.dist) == ("given", "(unnamed distribution)")


def test_entry_points_of_other_groups_are_no_plugins(shelf: Shelf) -> None:
    shelf.engine("own")
    shelf.describe("dist-more", "[llmgw]\nown-too = dist_own\n[llmgw.commands]\ntool = dist_own:main\n")
    shelf.names.add("tool")
    assert [(refused.name, refused.reason[:13]) for refused in shelf.host().refused] == [
        ("tool", "not installed")
    ]


def test_a_malformed_entry_points_file_costs_only_its_own_distribution(shelf: Shelf) -> None:
    shelf.engine("good")
    shelf.describe("dist-garbled", "[llmgw]\nno equals sign\n")
    shelf.describe("dist-unrelated", "[other]\nno equals sign either\n")
    shelf.names.add("dist-garbled")
    host = shelf.host()
    assert [loaded.info.name for loaded in host.plugins] == ["good"]
    (refused,) = host.refused
    assert (refused.name, refused.dist) == ("dist-garbled", "dist-garbled")
    assert refused.reason.startswith("its entry_points.txt cannot be read: TypeError")


def test_a_distribution_without_metadata_is_still_loaded(shelf: Shelf) -> None:
    shelf.engine("bare", dist="dist-bare")
    (shelf.directory / "dist_bare-1.0.dist-info" / "METADATA").unlink()
    (loaded,) = shelf.host().plugins
    assert (loaded.dist, loaded.version) == ("(unnamed distribution)", "")


def test_a_distribution_that_is_installed_twice_counts_once(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.engine("again", version="2.0")
    older = shelf.directory / "older"
    (older / "Dist.Again-1.0.dist-info").mkdir(parents=True)
    metadata = older / "Dist.Again-1.0.dist-info" / "METADATA"
    metadata.write_text("Metadata-Version: 2.1\nName: Dist.Again\nVersion: 1.0\n")
    metadata.with_name("entry_points.txt").write_text("[llmgw]\nagain = dist_again\n")
    monkeypatch.syspath_prepend(str(older))
    monkeypatch.syspath_prepend(str(shelf.directory))
    (loaded,) = shelf.host().plugins
    assert loaded.version == "2.0"


def test_a_host_of_given_objects_raises_for_a_bad_one(shelf: Shelf) -> None:
    shelf.engine("fine")
    module = __import__("dist_fine")
    assert list(PluginHost.of(module).engines) == ["fine"]
    with pytest.raises(PluginRefused, match="has no llmgw_plugin_info hook"):
        PluginHost.of(module, object())


def test_what_a_host_hands_out_cannot_be_changed(shelf: Shelf) -> None:
    shelf.engine("fixed")
    host = shelf.host()
    with pytest.raises(TypeError):
        host.engines["fixed"] = None  # type: ignore[index]
    assert isinstance(host.plugins, tuple)
