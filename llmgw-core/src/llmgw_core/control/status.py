"""Rows of the admin API: what the last pass saw, as plain JSON values. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmgw_core.catalog.model import Model
from llmgw_core.control.events import Happened
from llmgw_core.control.loop import Snapshot, node_state
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.reconcile.standing import Standing
from llmgw_core.reconcile.state import Replica
from llmgw_core.spec import EngineFound, Failure

Row = dict[str, Any]


def node_rows(snapshot: Snapshot) -> list[Row]:
    """One row for each node that is known."""
    return [_node(node) for node in snapshot.actual.nodes.values()]


def _node(node: NodeView) -> Row:
    report = node.report
    return {
        "name": node.name,
        "state": node_state(node),
        "connected": node.connected,
        "silence": round(node.silence, 1),
        "address": report.address if report else None,
        "cpus": report.cpus if report else None,
        "memory_mib": report.memory_mib if report else None,
        "gpus": [gpu.model_dump(mode="json") for gpu in report.gpus] if report else [],
        "engines": [_engine(engine) for engine in report.engines] if report else [],
        "problems": list(report.problems) if report else [],
        "cordoned": node.cordoned,
    }


def _engine(engine: EngineFound) -> Row:
    return {
        "name": engine.name,
        "version": engine.version,
        "binary": list(engine.binary),
        "problems": list(engine.problems),
    }


def model_rows(snapshot: Snapshot) -> list[Row]:
    """One row for each model of the catalog."""
    return [_model(standing, snapshot.catalog.resolve(standing.model)) for standing in snapshot.standings]


def _model(standing: Standing, model: Model | None) -> Row:
    return {
        "name": standing.model,
        "state": standing.state,
        "wanted": standing.wanted,
        "ready": standing.ready,
        "reason": standing.reason,
        "next": standing.next,
        "failure": failure_row(standing.failure),
        "engines": sorted({profile.engine for profile in model.profiles}) if model else [],
    }


def replica_rows(snapshot: Snapshot, ended: Sequence[tuple[float, Replica]], now: float) -> list[Row]:
    """One row for each replica: those that are there, then those that ended lately."""
    there = {replica.id for replica in snapshot.replicas}
    rows = [_replica(replica, snapshot, replica.for_seconds) for replica in snapshot.replicas]
    return rows + [_replica(old, snapshot, now - at) for at, old in ended if old.id not in there]


def _replica(replica: Replica, snapshot: Snapshot, for_seconds: float) -> Row:
    leader = replica.ranks[0]
    shard = leader.shard or replica.about
    processes = [p for rank in replica.ranks if rank.status for p in rank.status.processes]
    return {
        "id": replica.id,
        "model": replica.model,
        "state": replica.state,
        "for_seconds": round(for_seconds, 1),
        "nodes": [rank.node for rank in replica.ranks],
        "profile": shard.profile.name,
        "engine": shard.engine,
        "engine_version": _version(snapshot, shard.node, shard.engine),
        "url": f"http://{shard.address}:{shard.http_port}",
        "why": replica.reason,
        "progress": leader.status.progress if leader.status else None,
        "progress_text": leader.status.progress_text if leader.status else "",
        "in_flight": snapshot.actual.in_flight.get(replica.id, 0),
        "adopted": any(rank.status.adopted for rank in replica.ranks if rank.status),
        "pids": [process.pid for process in processes],
        "failure": failure_row(replica.failure),
    }


def _version(snapshot: Snapshot, node: str, engine: str) -> str | None:
    view = snapshot.actual.nodes.get(node)
    found = view.report.engine(engine) if view and view.report else None
    return found.version if found else None


def failure_row(failure: Failure | None) -> Row | None:
    """A failure under the field names of the API."""
    if failure is None:
        return None
    row: Row = failure.model_dump(mode="json")
    return {"class": row.pop("failure"), **row}


def event_rows(events: Sequence[Happened], now: float) -> list[Row]:
    """One row for each event, oldest first; `age` in seconds."""
    return [
        {
            "age": round(now - happened.at, 1),
            "kind": happened.event.kind,
            "subject": happened.event.subject,
            "message": happened.event.message,
        }
        for happened in events
    ]
