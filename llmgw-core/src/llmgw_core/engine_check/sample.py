"""A made-up shard and launch, so that a plugin can be asked for commands where nothing is placed."""

from __future__ import annotations

from pydantic import SecretStr

from llmgw_core.spec import (
    NO_EPOCH,
    EngineInfo,
    Gpu,
    GpuRef,
    Launch,
    ModelKind,
    Peer,
    Profile,
    Shard,
    shard_id,
)

__all__ = ["sample_launch", "sample_shard"]

_REPLICA = "r-aaaaaaaaaa"
_FIRST_PORT = 20000


def sample_shard(
    info: EngineInfo,
    profile: Profile,
    rank: int,
    *,
    model: str,
    source: str,
    kind: ModelKind = "chat",
    revision: str = "",
) -> Shard:
    """One rank of a replica of `profile`, with addresses, ports and GPUs of nowhere."""
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
        revision=revision,
        model=model,
        served_name=model,
        kind=kind,
        source=source,
        engine=profile.engine,
        profile=profile,
        peers=tuple(Peer(node=f"node{one}", address=f"10.0.0.{one + 1}") for one in range(profile.nodes)),
        address=f"10.0.0.{rank + 1}",
        leader_address="10.0.0.1",
        http_port=_FIRST_PORT,
        rendezvous_port=_FIRST_PORT + 1 if profile.nodes > 1 else None,
        extra_ports=extra,
        gpus=tuple(GpuRef(index=gpu.index, uuid=gpu.uuid) for gpu in _gpus(profile, None)),
        cpus=profile.cpus,
        memory_mib=profile.memory_mib,
        key_version=1,
    )


def sample_launch(
    profile: Profile, *, binary: tuple[str, ...], version: str = "", compute_capability: str | None = None
) -> Launch:
    """What an agent of nowhere would add. Without a version, a plugin refuses only what no version has."""
    return Launch(
        binary=binary,
        version=version,
        gpu_facts=_gpus(profile, compute_capability),
        key=SecretStr("not a key"),
        work_dir="/nonexistent",
        log_dir="/nonexistent",
    )


def _gpus(profile: Profile, compute_capability: str | None) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            index=index,
            uuid=f"GPU-{index}",
            gpu_class=profile.gpu_class,
            compute_capability=compute_capability,
        )
        for index in range(profile.gpus_per_node)
    )
