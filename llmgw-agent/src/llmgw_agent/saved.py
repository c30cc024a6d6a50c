"""The form in which an agent's state lies on disk: versioned JSON, the engine keys included (0600)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from llmgw_core.node.state import NodeState, Process, Record
from llmgw_core.ports import ProcessId
from llmgw_core.spec.errors import StateDirError
from llmgw_core.spec.identity import Epoch, Stamp
from llmgw_core.spec.shard import Shard
from llmgw_core.spec.status import AgentGoal, AgentState, Failure
from llmgw_core.spec.value import FrozenMap, Value
from pydantic import Field, ValidationError

FORMAT = 1


class _Versioned(Value):
    format: int


class SavedNode(Value):
    """`state.json`: what is not about one shard."""

    format: int = FORMAT
    cluster: str | None
    heard: Epoch
    applied: Stamp | None
    refused: FrozenMap[str, str] = Field(default_factory=dict)


class SavedProcess(Value):
    """One process of a shard."""

    name: str
    pid: int
    started: int
    boot: str
    stop_signal: Literal["TERM", "INT"] = "TERM"


class SavedRecord(Value):
    """`shards/<replica>-<rank>.json`: one record, without what only the running agent needs."""

    format: int = FORMAT
    shard: Shard
    goal: AgentGoal
    state: AgentState
    since: float
    boot: str
    token: str
    key: str | None = Field(default=None, repr=False)
    processes: tuple[SavedProcess, ...] = ()
    adopted: bool = False
    launched: bool = False
    grace: float | None = None
    detail: str = ""
    failure: Failure | None = None


def node_json(state: NodeState) -> bytes:
    """The content of `state.json`."""
    saved = SavedNode(
        cluster=state.cluster, heard=state.heard, applied=state.applied, refused=dict(state.refused)
    )
    return saved.model_dump_json(indent=1).encode()


def record_json(record: Record) -> bytes:
    """The content of one record's file."""
    saved = SavedRecord(
        shard=record.shard,
        goal=record.goal,
        state=record.state,
        since=record.since,
        boot=record.boot,
        token=record.token,
        key=record.key,
        processes=tuple(
            SavedProcess(
                name=process.name,
                pid=process.id.pid,
                started=process.id.started,
                boot=process.id.boot,
                stop_signal=process.stop_signal,
            )
            for process in record.processes
        ),
        adopted=record.adopted,
        launched=record.launched,
        grace=record.grace,
        detail=record.detail,
        failure=record.failure,
    )
    return saved.model_dump_json(indent=1).encode()


def read_node(content: bytes, path: str) -> NodeState | None:
    """The state without its records; None when the file is damaged. Raises StateDirError: too new."""
    try:
        _check_format(content, path)
        saved = SavedNode.model_validate_json(content)
    except ValidationError:
        return None
    return NodeState(
        heard=saved.heard, applied=saved.applied, cluster=saved.cluster, refused=dict(saved.refused)
    )


def read_record(content: bytes, path: str) -> Record | None:
    """One record; None when the file is damaged. Raises StateDirError when it is too new."""
    try:
        _check_format(content, path)
        saved = SavedRecord.model_validate_json(content)
    except ValidationError:
        return None
    record = Record(saved.shard, saved.goal, saved.state, saved.since, saved.boot, saved.token, saved.key)
    return replace(
        record,
        processes=tuple(
            Process(
                process.name,
                ProcessId(process.pid, process.started, process.boot, saved.token),
                process.stop_signal,
            )
            for process in saved.processes
        ),
        adopted=saved.adopted,
        launched=saved.launched,
        grace=saved.grace,
        detail=saved.detail,
        failure=saved.failure,
    )


def _check_format(content: bytes, path: str) -> None:
    # A newer agent's records may mean what this one cannot know: to guess could start an engine twice.
    if _Versioned.model_validate_json(content).format > FORMAT:
        raise StateDirError(
            "was written by a newer llmgw-agent", where=path, fix="install that version again, or newer"
        )
