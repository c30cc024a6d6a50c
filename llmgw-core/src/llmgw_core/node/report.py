"""What an agent tells of its state: statuses for a report, records for a register. Pure."""

from __future__ import annotations

from llmgw_core.node.state import NodeState, Record
from llmgw_core.spec.status import ProcessFact, ShardStatus
from llmgw_core.spec.wire import ShardRecord


def status(record: Record, now: float) -> ShardStatus:
    """One shard as the control plane may see it: no token, no key."""
    engine = record.engine
    return ShardStatus(
        shard=record.id,
        state=record.state,
        goal=record.goal,
        for_seconds=max(0.0, now - record.since),
        pid=engine.id.pid if engine else None,
        processes=tuple(
            ProcessFact(name=process.name, pid=process.id.pid, started=process.id.started)
            for process in record.processes
        ),
        adopted=record.adopted,
        progress_text=record.progress_text,
        detail=record.detail,
        failure=record.failure,
    )


def statuses(state: NodeState, now: float) -> tuple[ShardStatus, ...]:
    """Every record, ordered by shard id."""
    return tuple(status(state.records[shard], now) for shard in sorted(state.records))


def shard_records(state: NodeState, now: float) -> tuple[ShardRecord, ...]:
    """Every record with its Shard, ordered by shard id."""
    return tuple(
        ShardRecord(shard=state.records[shard].shard, status=status(state.records[shard], now))
        for shard in sorted(state.records)
    )
