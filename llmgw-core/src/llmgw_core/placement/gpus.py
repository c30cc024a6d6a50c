"""Choosing GPUs of one node: one class, lowest indices, tensor-parallel groups inside NVLink domains."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from llmgw_core.placement.asked import Room
from llmgw_core.spec.node import Gpu
from llmgw_core.spec.shard import Profile


def free_of_class(profile: Profile, room: Room) -> tuple[Gpu, ...]:
    """The only GPUs that a profile can ever get: usable, not held, of its class; lowest index first."""
    return room.free.of_class(profile.gpu_class)


def group_on_node(profile: Profile) -> int:
    """How many ranks of a tensor-parallel group are sure to stand together on one node.

    All of them where groups do not span nodes; else the largest number that no node's share cuts through.
    """
    return gcd(profile.tensor_parallel, profile.gpus_per_node)


def nvlink_matters(profile: Profile, room: Room) -> bool:
    """Whether this node has NVLink domains that could hold a tensor-parallel group of this profile.

    A card with bridges between pairs has domains of two: a group of four is no worse off there than
    on a node without NVLink, so it is not refused.
    """
    if profile.gpus_per_node < 2 or not room.report.nvlink_domains:
        return False
    group = group_on_node(profile)
    return 1 < group <= max((len(domain) for domain in _domains(profile, room)), default=0)


def choose_gpus(profile: Profile, room: Room) -> tuple[Gpu, ...] | None:
    """The GPUs that the profile gets on this node; None when it cannot have them.

    Ranks follow the order of the answer, so each tensor-parallel group stands together in it.
    """
    free = free_of_class(profile, room)
    if len(free) < profile.gpus_per_node:
        return None
    if not nvlink_matters(profile, room):
        return free[: profile.gpus_per_node]
    domains = [[gpu for gpu in free if gpu.index in domain] for domain in _domains(profile, room)]
    return _by_groups(domains, profile.gpus_per_node, group_on_node(profile))


def _domains(profile: Profile, room: Room) -> list[set[int]]:
    left = {gpu.index for gpu in room.report.gpus if gpu.gpu_class == profile.gpu_class}
    domains = []
    for domain in room.report.nvlink_domains:
        # A GPU that a report names in two domains counts in the first, so that none is given out twice.
        domains.append(left & set(domain))
        left -= set(domain)
    return domains


def _by_groups(domains: Sequence[list[Gpu]], count: int, group: int) -> tuple[Gpu, ...] | None:
    tightest = sorted(domains, key=lambda gpus: (len(gpus), gpus[0].index if gpus else 0))
    whole = next((gpus for gpus in tightest if len(gpus) >= count), None)
    if whole is not None:
        return tuple(whole[:count])
    chosen: list[Gpu] = []
    # Largest first: every domain gives as many whole groups as it has, and the fewest are touched.
    for gpus in reversed(tightest):
        take = min(len(gpus) // group * group, count - len(chosen))
        chosen.extend(gpus[:take])
    return tuple(chosen) if len(chosen) == count else None
