"""From a placement to the shards that its nodes are to run."""

from __future__ import annotations

from llmgw_core.catalog.model import Catalog, Model, launch_revision
from llmgw_core.placement.result import NodePlacement, Placement
from llmgw_core.reconcile.state import Actual
from llmgw_core.spec.identity import shard_id
from llmgw_core.spec.shard import Peer, Profile, Shard, Timeouts


def shards_of(
    model: Model, placement: Placement, catalog: Catalog, actual: Actual, replica: str
) -> tuple[Shard, ...]:
    """One Shard for each node of a placement; rank 0, the leader, is on the first."""
    profile, nodes = placement.profile, placement.nodes
    shared: dict[str, object] = {
        "replica": replica,
        "world": len(nodes),
        "epoch": actual.epoch,
        "catalog_revision": catalog.revision,
        "revision": launch_revision(model, profile),
        "model": model.name,
        "served_name": model.name,
        "kind": model.kind,
        "source": model.source,
        "engine": profile.engine,
        "profile": profile,
        "peers": tuple(Peer(node=node.node, address=node.address) for node in nodes),
        "leader_address": nodes[0].address,
        "rendezvous_port": nodes[0].rendezvous_port,
        "timeouts": _timeouts(profile, actual),
        "stop_on_client_after": model.stop_on_client_after,
        "key_version": actual.key_version,
    }
    return tuple(
        Shard.model_validate(shared | {"shard": shard_id(replica, rank), "rank": rank} | _held(node))
        for rank, node in enumerate(nodes)
    )


def _held(node: NodePlacement) -> dict[str, object]:
    return {
        "address": node.address,
        "http_port": node.http_port,
        "extra_ports": node.extra_ports,
        "gpus": node.gpus,
        "cpus": node.cpus,
        "memory_mib": node.memory_mib,
        "fabric": node.fabric,
        "fabric_strength": node.fabric_strength,
        "hca_ports": node.hca_ports,
    }


def _timeouts(profile: Profile, actual: Actual) -> Timeouts:
    return Timeouts(
        start=profile.start_timeout,
        load=profile.load_timeout,
        wait=profile.start_timeout,
        drain=profile.drain_timeout,
        kill=actual.kill_timeout,
    )
