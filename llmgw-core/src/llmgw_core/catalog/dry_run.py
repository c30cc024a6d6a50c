"""Asks an engine's plugin for the commands of every profile, so that what it refuses shows at load.

The shard is made up (addresses, ports, GPUs) and nothing is started: a plugin gives commands as data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import SecretStr

from llmgw_core.catalog.fault import Fault, Path
from llmgw_core.catalog.model import Catalog, Model, launch_revision
from llmgw_core.spec.engine import EngineInfo, Launch
from llmgw_core.spec.errors import PluginError, Unsupported
from llmgw_core.spec.identity import NO_EPOCH, shard_id
from llmgw_core.spec.node import Gpu
from llmgw_core.spec.shard import GpuRef, Peer, Profile, Shard

Commands = Callable[[Shard, Launch], object]
"""Gives the commands of a shard. Raises Unsupported, or PluginFailed for a plugin that is broken."""

_REPLICA = "r-aaaaaaaaaa"
_OF_MODEL = frozenset({"source", "kind"})
_FIRST_PORT = 20000


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
            commands(_shard(model, profile, info, rank), _launch(profile))
    except Unsupported as error:
        return Fault(_place(error.field, path), error.reason)
    except PluginError as error:
        return Fault((*path, "engine"), error.message, "report it to the plugin's author")
    return None


def _place(field: str, path: Path) -> Path:
    if field == "name":
        return path[:2]
    return (*(path[:2] if field in _OF_MODEL else path), *field.split(".", 1))


def _shard(model: Model, profile: Profile, info: EngineInfo, rank: int) -> Shard:
    needs = [need for need in info.ports if profile.nodes > 1 or not need.only_multi_node]
    # HTTP, then rank 0's rendezvous, then a stretch of ports for each need of the engine.
    extra = {
        need.name: tuple(range(_FIRST_PORT + 100 * number, _FIRST_PORT + 100 * number + need.count))
        for number, need in enumerate(needs, start=1)
        if need.ranks == "all" or rank == 0
    }
    return Shard(
        shard=shard_id(_REPLICA, rank),
        replica=_REPLICA,
        rank=rank,
        world=profile.nodes,
        epoch=NO_EPOCH,
        catalog_revision="",
        revision=launch_revision(model, profile),
        model=model.name,
        served_name=model.name,
        kind=model.kind,
        source=model.source,
        engine=profile.engine,
        profile=profile,
        peers=tuple(Peer(node=f"node{rank}", address=f"10.0.0.{rank + 1}") for rank in range(profile.nodes)),
        address=f"10.0.0.{rank + 1}",
        leader_address="10.0.0.1",
        http_port=_FIRST_PORT,
        rendezvous_port=_FIRST_PORT + 1 if profile.nodes > 1 else None,
        extra_ports=extra,
        gpus=tuple(GpuRef(index=gpu.index, uuid=gpu.uuid) for gpu in _gpus(profile)),
        cpus=profile.cpus,
        memory_mib=profile.memory_mib,
        key_version=1,
    )


def _launch(profile: Profile) -> Launch:
    return Launch(
        binary=(profile.engine,),
        version="",
        gpu_facts=_gpus(profile),
        key=SecretStr("not a key"),
        work_dir="/nonexistent",
        log_dir="/nonexistent",
    )


def _gpus(profile: Profile) -> tuple[Gpu, ...]:
    indices = range(profile.gpus_per_node)
    return tuple(Gpu(index=i, uuid=f"GPU-{i}", gpu_class=profile.gpu_class) for i in indices)
