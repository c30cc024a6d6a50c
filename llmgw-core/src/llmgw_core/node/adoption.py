"""What an agent makes of its state files and of the processes that it finds when it starts. Pure.

A live engine is taken over, described by its record or by LLMGW_SPEC alone. Whatever a record expects
and is not there has ended, and says why. A process with our marker that nothing describes is killed: it
holds what placement would hand out again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pydantic import ValidationError

from llmgw_core.node import lifecycle
from llmgw_core.node.state import ENGINE, NodeState, Process, Record
from llmgw_core.ports import ProcessSeen
from llmgw_core.spec.identity import Epoch
from llmgw_core.spec.shard import Shard
from llmgw_core.spec.status import Failure


@dataclass(frozen=True)
class Adoption:
    """The node as it was found.

    `watch`: shards whose engine lives. `end`: shards of which something lives that has to go.
    `kill`: processes that nothing describes. `notes`: one sentence for each thing worth telling.
    """

    state: NodeState
    watch: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    kill: tuple[ProcessSeen, ...] = ()
    notes: tuple[str, ...] = ()


def adopt(saved: NodeState, seen: tuple[ProcessSeen, ...], boot: str, now: float) -> Adoption:
    """Match what was saved with what runs. `seen` is the whole scan of this boot."""
    known = {record.token: record for record in saved.records.values() if not record.ended}
    described = _described(seen, saved, known)
    records = dict(saved.records)
    for record in (*known.values(), *described.values()):
        own = [process for process in seen if process.id.token == record.token]
        records[record.id] = _found(record, own, boot, now)
    state = replace(
        saved,
        heard=_highest(saved.heard, (record.shard.epoch for record in records.values())),
        records=records,
        refused={shard: reason for shard, reason in saved.refused.items() if shard not in records},
    )
    tokens = {*known, *described}
    strangers = tuple(process for process in seen if process.id.token not in tokens)
    dying = tuple(record.id for record in state.live if record.state in {"Stopping", "Unkillable"})
    return Adoption(
        state,
        watch=tuple(record.id for record in state.live if record.id not in dying),
        end=dying,
        kill=strangers,
        notes=_notes(described.values(), strangers),
    )


def _described(
    seen: tuple[ProcessSeen, ...], saved: NodeState, known: dict[str, Record]
) -> dict[str, Record]:
    """Records made from LLMGW_SPEC, by token, for processes whose record is lost."""
    found: dict[str, Record] = {}
    taken = set(saved.records)
    for process in seen:
        token = process.id.token
        shard = _parse(process)
        if token in known or shard is None or shard.shard in taken:
            continue
        taken.add(shard.shard)
        found[token] = Record(shard, shard.goal, "Loading", 0.0, process.id.boot, token, launched=True)
    return found


def _parse(process: ProcessSeen) -> Shard | None:
    try:
        shard = Shard.model_validate_json(process.spec or "")
    except ValidationError:
        return None
    return shard if shard.shard == process.shard else None


def _found(record: Record, own: list[ProcessSeen], boot: str, now: float) -> Record:
    """A record that had not ended, after looking for its processes."""
    record = replace(record, since=min(record.since or now, now) if record.boot == boot else now)
    engine = _engine(record, own)
    if engine is None:
        return _lost(record, own, boot, now)
    sidecars = {process.name: process for process in record.processes if process.name != ENGINE}
    for process in sorted(own, key=_age):
        if process.process != ENGINE and process.leader:
            sidecars.setdefault(process.process, Process(process.process, process.id))
    taken = replace(record, processes=(*sidecars.values(), engine), adopted=True, launched=True, misses=0)
    if taken.state == "Unkillable":
        return replace(taken, state="Stopping", since=now)
    return lifecycle.loading(taken, now)


def _engine(record: Record, own: list[ProcessSeen]) -> Process | None:
    if expected := record.engine:
        return expected if any(process.id == expected.id for process in own) else None
    # The agent died between the fork and the note of its pid, or the record was lost: of the processes
    # that inherited the engine's environment, the oldest leader of a session is the engine itself.
    mine = sorted((p for p in own if p.process == ENGINE and p.leader), key=_age)
    return Process(ENGINE, mine[0].id) if mine else None


def _age(process: ProcessSeen) -> tuple[int, int]:
    return process.id.started, process.id.pid


def _lost(record: Record, own: list[ProcessSeen], boot: str, now: float) -> Record:
    """Its engine does not run; what else is left of it has to go before the record may end."""
    left = tuple(Process(process.process, process.id) for process in own)
    dying = record.state in {"Stopping", "Unkillable"}
    failed = record.failure or (None if dying else _why(record, boot))
    state = replace(
        record,
        state="Stopping",
        processes=left,
        failure=failed,
        detail=failed.detail if failed else record.detail,
    )
    return state if left else lifecycle.gone(state, now)


def _why(record: Record, boot: str) -> Failure:
    if record.boot != boot:
        return lifecycle.failure("rebooted", "the machine was restarted")
    if record.engine is None:
        return lifecycle.failure("agent", "the agent ended before the engine was started")
    return lifecycle.failure("vanished", "the engine ended while no agent was running")


def _highest(heard: Epoch, epochs: Iterable[Epoch]) -> Epoch:
    """The highest leadership that is known of; its process only where there is no doubt about it."""
    found = tuple(epochs)
    top = max((epoch.number for epoch in found), default=0)
    if top <= heard.number:
        return heard
    controls = {epoch.control for epoch in found if epoch.number == top}
    return Epoch(number=top, control=controls.pop() if len(controls) == 1 else "")


def _notes(described: Iterable[Record], strangers: Iterable[ProcessSeen]) -> tuple[str, ...]:
    recovered = [
        f"{record.id} was recovered from its process alone; its record is lost" for record in described
    ]
    killed = [f"pid {p.id.pid} ({p.shard}) is killed: nothing says what it was to run" for p in strangers]
    return (*recovered, *killed)
