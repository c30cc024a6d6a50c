"""The check asks for everything that a plugin may be asked for, and lists what it refuses."""

from __future__ import annotations

from collections import Counter

import pytest
from llmgw_core.engine_check.build import Built, build
from llmgw_core.engine_check.variety import OPTIONS, Request, requests, shapes
from llmgw_core.spec import Command, EngineInfo, Launch, PluginFailed, Shard, Unsupported


def everything(info: EngineInfo) -> list[Request]:
    return [
        request
        for shape in shapes(info)
        for option in ((), *((option,) for option in OPTIONS))
        for request in requests(info, shape, option, binary=("toy",), version="1.0")
    ]


def test_every_rank_of_every_shape_is_asked_for(info: EngineInfo) -> None:
    asked = everything(info)
    by_world = Counter((request.shard.world, request.shard.rank) for request in asked)
    assert by_world[2, 0] == by_world[2, 1] > 100
    assert {request.launch.version for request in asked} == {"1.0"}


def test_every_field_of_a_profile_that_an_engine_acts_on_is_asked_for(info: EngineInfo) -> None:
    profiles = [request.shard.profile for request in everything(info)]
    plain = type(profiles[0])(name="p", engine="e")
    left_to_the_agent = {
        "name",
        "engine",
        "engine_version",
        "gpu_class",
        "engine_args",
        "env",
        "node_selector",
    }
    times = {"start_timeout", "load_timeout", "drain_timeout"}
    for field in type(plain).model_fields.keys() - left_to_the_agent - times:
        assert {str(getattr(one, field)) for one in profiles} - {str(getattr(plain, field))}, field


def test_a_replica_spans_as_many_nodes_as_the_engine_says(info: EngineInfo) -> None:
    wide = info.model_copy(update={"max_nodes": 4})
    assert {request.shard.world for request in everything(wide)} == {1, 4}


def test_options_that_are_taken_alone_are_taken_together_too(built: Built) -> None:
    widest = max((one.label for one in built.made), key=len)
    assert "max_model_len" in widest
    assert "allow_remote_code" in widest
    assert "fabric" in widest
    assert "lora" not in widest


def test_what_is_refused_is_listed_with_field_and_reason(built: Built) -> None:
    found = {(one.field, one.reason) for one in built.refused}
    assert found == {("lora", "toys are simple"), ("kind", "toys are simple")}


def test_the_last_process_is_the_engine_and_the_others_stand_beside_it(built: Built) -> None:
    assert {one.command.name for one in built.made if one.engine} == {"engine"}
    assert {one.command.name for one in built.made if not one.engine} == {"join"}


@pytest.mark.parametrize(
    ("binary", "argv", "arguments"),
    (
        ("/usr/bin/toy", ("/usr/bin/toy", "serve", "--a"), ("serve", "--a")),
        ("/usr/bin/toy", ("/usr/bin/toy", "-m", "/model", "--a"), ("-m", "/model", "--a")),
        ("/usr/bin/toy", ("/opt/toy", "--a"), ("--a",)),
        ("/usr/bin/toy", ("python", "-m", "toy.server", "--a"), ("--a",)),
        ("/opt/toy/bin/python3", ("/opt/toy/bin/python3", "-m", "toy.server", "--a"), ("--a",)),
    ),
)
def test_the_program_is_not_one_of_its_arguments(
    info: EngineInfo, binary: str, argv: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    given = build(info, lambda *_: (Command(name="engine", argv=argv),), binary=(binary,), version="")
    assert {one.arguments for one in given.made} == {arguments}


def test_a_plugin_that_refuses_everything_gives_nothing_but_reasons(info: EngineInfo) -> None:
    def refuse(shard: Shard, launch: Launch) -> tuple[Command, ...]:
        raise Unsupported("engine", "not today")

    given = build(info, refuse, binary=("toy",), version="")
    assert given.made == ()
    assert len(given.refused) == len(shapes(info))


def test_a_plugin_that_breaks_is_not_a_refusal(info: EngineInfo) -> None:
    def broken(shard: Shard, launch: Launch) -> tuple[Command, ...]:
        raise PluginFailed("toy", "llmgw_engine_commands", "oops")

    with pytest.raises(PluginFailed):
        build(info, broken, binary=("toy",), version="")
