"""An explanation as lines for a terminal: one row for each node, or for many that say the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from llmgw_core.spec.placement import Rejection

MAX_ROWS = 20
"""Rows of one profile; what has more is summed up, and `--json` has all of it."""
MAX_NAMED = 3
MAX_SCORES = 5

Row = tuple[str, str, str, str]


def explanation_lines(data: dict[str, Any]) -> Iterator[str]:
    """What `explain` returned (as it is, or come through JSON) as lines for a terminal."""
    for number, profile in enumerate(data["profiles"], start=1):
        yield f"{number}  {profile['name']} · {profile['engine']} · {profile['needs']} · {profile['outcome']}"
        if profile["outcome"] == "fits":
            yield from (f"   {_where(node)}" for node in data["nodes"])
            yield from _scores(data.get("scores", ()))
        yield from _table(_rows(profile["rejections"]))
    yield from (f"note: {note}" for note in data["notes"])
    if data.get("remedies"):
        yield f"It would fit after any one of: {' · '.join(data['remedies'])}"


def in_short(rejections: tuple[Rejection, ...]) -> str:
    """The first few rejections as one sentence, for where there is no room for all."""
    shown = [one for one in rejections if one.fabric in (None, one.node)]
    more = len(shown) - MAX_NAMED
    first = "; ".join(str(rejection) for rejection in shown[:MAX_NAMED])
    return f"{first}; and {more} more" if more > 0 else first


def _where(node: dict[str, Any]) -> str:
    gpus = f" GPU {','.join(map(str, node['gpus']))}" if node["gpus"] else f" {node['cpus']} CPUs"
    fabric = f", {node['fabric']}" if node.get("fabric") else ""
    hcas = f" by {', '.join(node['hca_ports'])}" if node.get("hca_ports") else ""
    return f"on {node['node']}{gpus}, port {node['http_port']}{fabric}{hcas}"


def _scores(scores: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Why this node, where there was a choice that more than packing made."""
    scores = tuple(scores)
    if not any(score["plugins"] or score.get("penalty") for score in scores):
        return
    for score in scores[:MAX_SCORES]:
        parts = [f"packing {score['packing']:.2f}"]
        parts += [
            f"{one['plugin']} {one.get('weight', 1.0):g} × {one['score']:.2f}" for one in score["plugins"]
        ]
        parts += [f"−{score['penalty']:g} ({score['avoided']})"] if score.get("penalty") else []
        yield f"   score {score['total']:.2f}  {score['node']}: {', '.join(parts)}"


def _rows(rejections: list[dict[str, Any]]) -> list[Row]:
    # The row of a fabric says what matters of its nodes.
    shown = [one for one in rejections if one.get("fabric") in (None, one["node"])]
    return [_row(one) for one in shown] if len(shown) <= MAX_ROWS else _summed(shown)


def _row(one: dict[str, Any]) -> Row:
    return one["node"], one["constraint"], f"needs {one['needed']}, has {one['had']}", one["detail"]


def _summed(rejections: list[dict[str, Any]]) -> list[Row]:
    """One row for all nodes that lack the same, the most frequent first."""
    alike: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in rejections:
        alike.setdefault((one["constraint"], one["needed"]), []).append(one)
    rows = []
    for (constraint, needed), own in sorted(alike.items(), key=lambda item: -len(item[1])):
        count = f"{len(own)} nodes" if len(own) > 1 else own[0]["node"]
        rows.append((count, constraint, f"needs {needed}, has {_some(own, 'had')}", _some(own, "node")))
    return rows


def _some(rejections: list[dict[str, Any]], field: str) -> str:
    values = list(dict.fromkeys(one[field] for one in rejections))
    return ", ".join(values[:MAX_NAMED]) + (", …" if len(values) > MAX_NAMED else "")


def _table(rows: list[Row]) -> Iterator[str]:
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield f"   {'   '.join([*cells, row[3]])}".rstrip()
