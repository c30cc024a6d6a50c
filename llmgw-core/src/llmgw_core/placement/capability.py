"""What hardware and engine must be able to do for a profile."""

from __future__ import annotations

from llmgw_core.placement.asked import Wanted, reject
from llmgw_core.spec.engine import Capability
from llmgw_core.spec.placement import Rejection

Version = tuple[int, int]

FP8: Version = (8, 9)
NVFP4: Version = (10, 0)
_FOUR_BITS = ("nvfp4", "modelopt_fp4")


def capability_needed(wanted: Wanted, in_file: str | None = None) -> tuple[Version, str] | None:
    """The least compute capability and the number format that asks for it; None when any will do.

    `in_file` is the quantization found in the weights, which counts as much as a declared one.
    """
    profile = wanted.profile
    formats = [text.lower() for text in (profile.quantization, profile.kv_cache_dtype, in_file) if text]
    for text in formats:
        if any(name in text for name in _FOUR_BITS):
            return NVFP4, text
    found = next((text for text in formats if "fp8" in text), None)
    return (FP8, found) if found else None


def capability_of(text: str | None) -> Version | None:
    """A compute capability as numbers, since as text 10.0 is less than 9.0; None when it is not known."""
    major, _, minor = (text or "").partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def engine_cannot(wanted: Wanted, where: str) -> Rejection | None:
    """Why the engine cannot run over the nodes of the profile at all."""
    profile, engine = wanted.profile, wanted.engine
    if profile.nodes == 1:
        return None
    if not engine.supports(Capability.MULTI_NODE):
        return reject(wanted, where, "engine", needs=f"{profile.nodes} nodes", has=f"{engine.title}: 1 node")
    if profile.nodes > engine.max_nodes:
        has = f"{engine.title}: at most {engine.max_nodes}"
        return reject(wanted, where, "engine", needs=f"{profile.nodes} nodes", has=has)
    spans = profile.gpus_per_node > 0 and profile.gpus_per_node % profile.tensor_parallel != 0
    if spans and not engine.supports(Capability.TP_ACROSS_NODES):
        needs = f"tensor-parallel groups of {profile.tensor_parallel}"
        has = f"{profile.gpus_per_node} GPUs a node"
        detail = f"{engine.title} keeps a group on one node"
        return reject(wanted, where, "engine", needs=needs, has=has, detail=detail)
    return None
