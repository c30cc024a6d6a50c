"""The environment of a rank, beside what the agent and a fabric plugin set for their own."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_core.spec import Launch, Shard, Unsupported

from llmgw_sglang.owned import variable_fault

__all__ = ["rank_environment"]


def rank_environment(shard: Shard, launch: Launch) -> dict[str, str]:
    """For every process of a rank. Raises Unsupported for a variable that is not the profile's to set."""
    for name in sorted(shard.profile.env):
        if reason := variable_fault(name):
            raise Unsupported(f"env.{name}", reason)
    if shard.profile.nodes == 1:
        return dict(shard.profile.env)
    # Each rank's own, never the leader's: it tells the others where to reach it.
    return {**shard.profile.env, "SGLANG_HOST_IP": shard.address, **_interface(launch)}


def _interface(launch: Launch) -> Mapping[str, str]:
    if launch.interface is None:
        return {}
    names = {
        "NCCL_SOCKET_IFNAME": f"={launch.interface}",  # without "=" it would be the beginning of a name
        "GLOO_SOCKET_IFNAME": launch.interface,
        "TP_SOCKET_IFNAME": launch.interface,
    }
    return {name: value for name, value in names.items() if name not in launch.fabric_env}
