"""How the ranks of a replica lie on its nodes, and the flags that tell SGLang so.

A shard is one node. A replica takes tensor × pipeline × data parallel devices, in this order from within.
"""

from __future__ import annotations

from llmgw_core.spec import Profile, Shard, Unsupported

from llmgw_sglang.info import RENDEZVOUS
from llmgw_sglang.release import Release

__all__ = ["check_shape", "parallel_flags", "rendezvous_port", "serves_http"]


def serves_http(shard: Shard) -> bool:
    """Whether this rank answers requests. Workers answer /health too, but only say that they started."""
    return shard.rank == 0


def check_shape(profile: Profile, release: Release) -> None:
    """Raise Unsupported for sizes that do not add up, or that this release cannot run."""
    nodes, tensor, pipeline = profile.nodes, profile.tensor_parallel, profile.pipeline_parallel
    if profile.launch_mode is not None:
        raise Unsupported("launch_mode", "SGLang has one launch mode; leave it out")
    wanted = tensor * pipeline * profile.data_parallel
    product = f"tensor × pipeline × data parallel is {wanted}"
    if profile.gpus_per_node and wanted != nodes * profile.gpus_per_node:
        has = f"{nodes} × {profile.gpus_per_node} GPUs"
        raise Unsupported("tensor_parallel", f"{product}, but the profile has {has}")
    if profile.data_parallel > 1 and nodes > 1:
        reason = "SGLang keeps a data-parallel replica on one node; ask for more replicas"
        raise Unsupported("data_parallel", reason)
    _check_split(nodes, tensor, pipeline)
    if pipeline > 1:
        release.need("pipeline_parallel", "--pp-size", "pipeline parallelism")


def _check_split(nodes: int, tensor: int, pipeline: int) -> None:
    """SGLang gives every node the same number of whole stages, or every stage the same number of nodes."""
    if pipeline >= nodes:
        if pipeline % nodes:
            reason = f"{pipeline} stages cannot be shared evenly by {nodes} nodes"
            raise Unsupported("pipeline_parallel", reason)
    elif nodes % pipeline or tensor % (nodes // pipeline):
        reason = f"groups of {tensor} in {pipeline} stages cannot be shared evenly by {nodes} nodes"
        raise Unsupported("tensor_parallel", reason)


def parallel_flags(shard: Shard, release: Release) -> tuple[str, ...]:
    """The flags of one rank."""
    profile = shard.profile
    flags = [f"--tp-size={profile.tensor_parallel}"]
    if profile.pipeline_parallel > 1:
        flags.append(f"--pp-size={profile.pipeline_parallel}")
    if profile.data_parallel > 1:
        flags.append(f"--dp-size={profile.data_parallel}")
    return (*flags, *(_over_nodes(shard) if profile.nodes > 1 else _on_one_node(shard, release)))


def _over_nodes(shard: Shard) -> tuple[str, ...]:
    host = f"[{shard.leader_address}]" if ":" in shard.leader_address else shard.leader_address
    return (
        f"--nnodes={shard.profile.nodes}",
        f"--node-rank={shard.rank}",
        f"--dist-init-addr={host}:{rendezvous_port(shard)}",
    )


def _on_one_node(shard: Shard, release: Release) -> tuple[str, ...]:
    # Otherwise it takes a random one that other shards may have been given. Data-parallel groups have a
    # rendezvous each, so that one port is not enough and SGLang has to choose; before 0.4.9 it always does.
    ports = shard.extra_ports.get(RENDEZVOUS, ())
    if not ports or shard.profile.data_parallel > 1 or not release.has("--nccl-port"):
        return ()
    return (f"--nccl-port={ports[0]}",)


def rendezvous_port(shard: Shard) -> int:
    """The port at the leader's address where the ranks meet. Raises Unsupported when there is none."""
    if shard.rendezvous_port is None:
        raise Unsupported("nodes", "the placement has no port where the nodes could meet")
    return shard.rendezvous_port
