"""Asks an engine's plugin for the commands of every profile, so that what it refuses shows at load.

The shard is made up (addresses, ports, GPUs) and nothing is started: a plugin gives commands as data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from llmgw_core.catalog.fault import Fault, Path
from llmgw_core.catalog.model import Catalog, Model, launch_revision
from llmgw_core.engine_check.sample import sample_launch, sample_shard
from llmgw_core.spec.engine import EngineInfo, Launch
from llmgw_core.spec.errors import PluginError, Unsupported
from llmgw_core.spec.shard import Profile, Shard

Commands = Callable[[Shard, Launch], object]
"""Gives the commands of a shard. Raises Unsupported, or PluginFailed for a plugin that is broken."""

_OF_MODEL = frozenset({"source", "kind"})


def commands_by_hook(call_one: Callable[..., Any]) -> Commands:
    """Commands by way of `PluginHost.call_one`."""
    return lambda shard, launch: call_one(shard.engine, "llmgw_engine_commands", shard=shard, launch=launch)


def dry_run(catalog: Catalog, engines: Mapping[str, EngineInfo], commands: Commands) -> Iterator[Fault]:
    """What plugins refuse of a catalog that has no other fault, one fault for each profile."""
    for model in catalog.models.values():
        for index, profile in enumerate(model.profiles):
            path: Path = ("models", model.name, "profiles", index)
            fault = _refusal(model, profile, engines[profile.engine], commands, path)
            if fault is not None:
                yield fault


def _refusal(
    model: Model, profile: Profile, info: EngineInfo, commands: Commands, path: Path
) -> Fault | None:
    try:
        # One worker stands for all: what differs between workers is only where they run.
        for rank in range(min(profile.nodes, 2)):
            shard = sample_shard(
                info,
                profile,
                rank,
                model=model.name,
                source=model.source,
                kind=model.kind,
                revision=launch_revision(model, profile),
            )
            commands(shard, sample_launch(profile, binary=(profile.engine,)))
    except Unsupported as error:
        return Fault(_place(error.field, path), error.reason)
    except PluginError as error:
        return Fault((*path, "engine"), error.message, "report it to the plugin's author")
    return None


def _place(field: str, path: Path) -> Path:
    if field == "name":
        return path[:2]
    return (*(path[:2] if field in _OF_MODEL else path), *field.split(".", 1))
