"""The regular look at what really runs, so that nothing depends on a signal that was missed. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from llmgw_core.node.state import NodeState, Process
from llmgw_core.ports import ProcessSeen


@dataclass(frozen=True)
class Relisted:
    """`ended`: (shard id, process) that a live record expects and the scan has not.

    `strangers`: processes with our marker that belong to no live record.
    """

    ended: tuple[tuple[str, Process], ...]
    strangers: tuple[ProcessSeen, ...]


def relist(state: NodeState, seen: tuple[ProcessSeen, ...]) -> Relisted:
    """Compare the records with a scan. What was started after the scan looks ended: ask again first."""
    there = {process.id for process in seen}
    tokens = {record.token for record in state.live}
    ended = [
        (record.id, process)
        for record in state.live
        for process in record.processes
        if process.id not in there
    ]
    return Relisted(tuple(ended), tuple(process for process in seen if process.id.token not in tokens))
