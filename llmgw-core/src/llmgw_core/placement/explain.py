"""A placement's answer as data: what fits where, how the candidates fared, and why the rest does not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llmgw_core.catalog.model import Model
from llmgw_core.placement.result import CandidateScore, NodePlacement, Placement, Unschedulable
from llmgw_core.spec.placement import Rejection
from llmgw_core.spec.shard import Profile


def explain(model: Model, result: Placement | Unschedulable) -> dict[str, Any]:
    """The answer as data that JSON can hold: profiles in order of preference, each with its rejections."""
    placed = result if isinstance(result, Placement) else None
    return {
        "model": model.name,
        "fits": placed is not None,
        "profile": placed.profile.name if placed else None,
        "nodes": [_node(node) for node in placed.nodes] if placed else [],
        "scores": [_score(score) for score in placed.scores] if placed else [],
        "notes": list(placed.notes) if placed else [],
        "remedies": [] if isinstance(result, Placement) else list(result.remedies),
        "profiles": [_profile(profile, placed, result.rejections) for profile in model.profiles],
    }


def _profile(profile: Profile, placed: Placement | None, rejections: Iterable[Rejection]) -> dict[str, Any]:
    fits = placed is not None and placed.profile.name == profile.name
    own = [rejection for rejection in rejections if rejection.profile == profile.name]
    return {
        "name": profile.name,
        "engine": profile.engine,
        "needs": _needs(profile),
        "outcome": "fits" if fits else "does not fit" if own else "not tried",
        "rejections": [rejection.model_dump(exclude={"profile"}) for rejection in own],
    }


def _needs(profile: Profile) -> str:
    nodes = f"{profile.nodes} node{'s' if profile.nodes > 1 else ''}"
    if profile.gpus_per_node:
        together = " on one fabric" if profile.nodes > 1 else ""
        return f"{nodes} × {profile.gpus_per_node} {profile.gpu_class}{together}"
    memory = f", {profile.memory_mib} MiB" if profile.memory_mib else ""
    return f"{nodes} × {profile.cpus} CPU{'s' if profile.cpus > 1 else ''}{memory}"


def _node(node: NodePlacement) -> dict[str, Any]:
    return {
        "node": node.node,
        "address": node.address,
        "gpus": [gpu.index for gpu in node.gpus],
        "cpus": node.cpus,
        "memory_mib": node.memory_mib,
        "http_port": node.http_port,
        "rendezvous_port": node.rendezvous_port,
        "fabric": node.fabric,
        "hca_ports": [f"{port.device}:{port.port}" for port in node.hca_ports],
    }


def _score(score: CandidateScore) -> dict[str, Any]:
    return {
        "node": score.candidate,
        "packing": score.packing,
        "plugins": [
            {"plugin": one.plugin, "score": one.score, "weight": one.weight, "reason": one.reason}
            for one in score.plugins
        ],
        "penalty": score.penalty,
        "avoided": score.avoided,
        "total": score.total,
    }
