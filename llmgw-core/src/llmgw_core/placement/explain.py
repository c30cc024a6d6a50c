"""A placement's answer for people and for programs: what fits where, and why the rest does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
        return f"{nodes} × {profile.gpus_per_node} {profile.gpu_class}"
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
    }


def _score(score: CandidateScore) -> dict[str, Any]:
    plugins = [{"plugin": one.plugin, "score": one.score, "reason": one.reason} for one in score.plugins]
    return {"node": score.candidate, "packing": score.packing, "plugins": plugins, "total": score.total}


def explanation_lines(data: Mapping[str, Any]) -> Iterator[str]:
    """What `explain` returned (as it is, or come through JSON) as lines for a terminal."""
    for number, profile in enumerate(data["profiles"], start=1):
        yield f"{number}  {profile['name']} · {profile['engine']} · {profile['needs']} · {profile['outcome']}"
        if profile["outcome"] == "fits":
            yield from (f"   {_where(node)}" for node in data["nodes"])
        yield from _table(profile["rejections"])
    yield from (f"note: {note}" for note in data["notes"])


def _where(node: dict[str, Any]) -> str:
    gpus = f" GPU {','.join(map(str, node['gpus']))}" if node["gpus"] else f" {node['cpus']} CPUs"
    return f"on {node['node']}{gpus}, port {node['http_port']}"


def _table(rejections: list[dict[str, str]]) -> Iterator[str]:
    rows = [
        (row["node"], row["constraint"], f"needs {row['needed']}, has {row['had']}", row["detail"])
        for row in rejections
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield f"   {'   '.join([*cells, row[3]])}".rstrip()
