"""The environment of a rank, beside what the agent and a fabric plugin set for their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from llmgw_core.spec import Launch, Profile, Shard, Unsupported

from llmgw_vllm.owned import variable_fault
from llmgw_vllm.topology import local_devices

__all__ = ["GUARD_CLASS", "GUARD_DIRECTORY", "rank_environment", "server_environment"]

GUARD_DIRECTORY = str(Path(__file__).parent / "guard")
"""Holds one file, so that with it on PYTHONPATH the engine can import nothing else of llmgw's."""
GUARD_CLASS = "llmgw_vllm_guard.KeyGuard"


def rank_environment(shard: Shard, launch: Launch) -> dict[str, str]:
    """For every process of a rank. Raises Unsupported for a variable that is not the profile's to set."""
    profile = shard.profile
    for name in sorted(profile.env):
        if reason := variable_fault(name, allow_remote_code=profile.allow_remote_code):
            raise Unsupported(f"env.{name}", reason)
    interface = _interface(launch) if profile.nodes > 1 else {}
    return {
        "VLLM_NO_USAGE_STATS": "1",
        **(_for_cpus(profile) if not profile.gpus_per_node else {}),
        **profile.env,
        # Each rank's own, never the leader's: it tells the others where to reach it.
        "VLLM_HOST_IP": shard.address,
        **interface,
    }


def _for_cpus(profile: Profile) -> Mapping[str, str]:
    """Without these every replica takes a share of the whole machine, and binds itself to the same cores."""
    ranks = local_devices(profile)
    return {
        # GiB for each rank; the other half is for weights and the process.
        "VLLM_CPU_KVCACHE_SPACE": str(max(1, profile.memory_mib // 2048 // ranks)),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(max(1, profile.cpus // ranks)),
    }


def _interface(launch: Launch) -> Mapping[str, str]:
    if launch.interface is None:
        return {}
    names = {
        "NCCL_SOCKET_IFNAME": f"={launch.interface}",  # without "=" it would be the beginning of a name
        "GLOO_SOCKET_IFNAME": launch.interface,
        "TP_SOCKET_IFNAME": launch.interface,
    }
    return {name: value for name, value in names.items() if name not in launch.fabric_env}


def server_environment(launch: Launch) -> Mapping[str, str]:
    """For the rank that serves HTTP: where it finds the key guard."""
    return {"PYTHONPATH": GUARD_DIRECTORY} if launch.key else {}
