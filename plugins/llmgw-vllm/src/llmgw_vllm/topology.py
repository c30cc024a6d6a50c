"""How the ranks of a replica lie on its nodes, and the flags that tell vLLM so.

A shard is one node. A replica takes tensor × pipeline × data parallel devices, in this order from within.
"""

from __future__ import annotations

from llmgw_core.spec import Profile, Shard, Unsupported

from llmgw_vllm.release import Release

__all__ = ["MODES", "check_shape", "launch_mode", "local_devices", "parallel_flags", "serves_http"]

MODES = ("mp", "ray")
"""How the nodes of a replica find each other: vLLM's own processes, or a Ray cluster."""


def launch_mode(profile: Profile) -> str:
    """How the nodes find each other; `mp` where the profile does not say. Raises Unsupported."""
    mode = profile.launch_mode or "mp"
    if mode not in MODES:
        raise Unsupported("launch_mode", f"vLLM is started by {' or '.join(MODES)}, not by {mode}")
    if mode == "ray" and profile.nodes == 1:
        raise Unsupported("launch_mode", "one node needs no Ray; leave it out")
    return mode


def serves_http(shard: Shard) -> bool:
    """Whether this rank answers HTTP; workers are headless."""
    return shard.rank == 0


def local_devices(profile: Profile) -> int:
    """Devices of one node: its GPUs, or, without any, the ranks that run on its CPUs."""
    return profile.gpus_per_node or _devices(profile) // profile.nodes


def check_shape(profile: Profile, release: Release) -> None:
    """Raise Unsupported for sizes that do not add up, or that this release cannot run."""
    _check_sizes(profile)
    if profile.gpus_per_node:
        _check_gpu_build(release)
    else:
        _check_cpu_build(profile, release)
    mode = launch_mode(profile)
    if profile.nodes == 1:
        return
    if profile.data_parallel > 1:
        _check_data_parallel(profile, mode)
        release.need("data_parallel", "--headless", "data parallelism over nodes", "use one node")
    elif mode == "mp":
        release.need("launch_mode", "--nnodes", "a replica over nodes without Ray", "set launch_mode: ray")


def _devices(profile: Profile) -> int:
    return profile.tensor_parallel * profile.pipeline_parallel * profile.data_parallel


def _check_sizes(profile: Profile) -> None:
    wanted, tensor = _devices(profile), profile.tensor_parallel
    product = f"tensor × pipeline × data parallel is {wanted}"
    if profile.gpus_per_node and wanted != profile.nodes * profile.gpus_per_node:
        has = f"{profile.nodes} × {profile.gpus_per_node} GPUs"
        raise Unsupported("tensor_parallel", f"{product}, but the profile has {has}")
    if wanted % profile.nodes:
        raise Unsupported("tensor_parallel", f"{product}, which {profile.nodes} nodes cannot share evenly")
    local = local_devices(profile)
    if local % tensor and tensor % local:
        reason = f"groups of {tensor} would lie unevenly on nodes with {local} devices"
        raise Unsupported("tensor_parallel", reason)


def _check_gpu_build(release: Release) -> None:
    if release.for_cpu:
        raise Unsupported("gpus_per_node", f"vLLM {release.version} on this node is a build for CPUs")


def _check_cpu_build(profile: Profile, release: Release) -> None:
    if release.for_cpu is False:
        reason = f"it is 0, and vLLM {release.version} on this node is not a build for CPUs"
        raise Unsupported("gpus_per_node", reason)
    if profile.pipeline_parallel > 1:
        # Seen with 0.32.0: /health is 200, the first request ends the engine.
        raise Unsupported("pipeline_parallel", "on CPUs vLLM starts with it and dies of the first request")
    if profile.launch_mode == "ray":
        raise Unsupported("launch_mode", "on CPUs nodes meet without Ray; leave it out")


def _check_data_parallel(profile: Profile, mode: str) -> None:
    group = profile.tensor_parallel * profile.pipeline_parallel
    if mode == "ray":
        raise Unsupported("launch_mode", "data parallelism over nodes runs without Ray; leave it out")
    if local_devices(profile) % group:
        reason = f"each of its engines takes {group} devices, which must lie on one node"
        raise Unsupported("data_parallel", reason)


def parallel_flags(shard: Shard) -> tuple[str, ...]:
    """The flags of one rank that runs `vllm serve`."""
    profile = shard.profile
    flags = [
        f"--tensor-parallel-size={profile.tensor_parallel}",
        f"--pipeline-parallel-size={profile.pipeline_parallel}",
    ]
    if profile.data_parallel > 1:
        flags.append(f"--data-parallel-size={profile.data_parallel}")
    if _devices(profile) > 1:
        # Said even where it is vLLM's default: a Ray that happens to be installed changes that.
        flags.append(f"--distributed-executor-backend={launch_mode(profile)}")
    if profile.nodes > 1 and launch_mode(profile) == "mp":
        flags += _over_nodes(shard)
    return tuple(flags)


def _over_nodes(shard: Shard) -> list[str]:
    flags = _data_parallel(shard) if shard.profile.data_parallel > 1 else _one_engine(shard)
    return flags if serves_http(shard) else [*flags, "--headless"]


def _one_engine(shard: Shard) -> list[str]:
    return [
        f"--nnodes={shard.profile.nodes}",
        f"--node-rank={shard.rank}",
        f"--master-addr={shard.leader_address}",
        f"--master-port={rendezvous_port(shard)}",
    ]


def _data_parallel(shard: Shard) -> list[str]:
    local = shard.profile.data_parallel // shard.profile.nodes
    return [
        f"--data-parallel-size-local={local}",
        f"--data-parallel-start-rank={local * shard.rank}",
        f"--data-parallel-address={shard.leader_address}",
        f"--data-parallel-rpc-port={rendezvous_port(shard)}",
    ]


def rendezvous_port(shard: Shard) -> int:
    """The port at the leader's address where the ranks meet. Raises Unsupported when there is none."""
    if shard.rendezvous_port is None:
        raise Unsupported("nodes", "the placement has no port where the nodes could meet")
    return shard.rendezvous_port
