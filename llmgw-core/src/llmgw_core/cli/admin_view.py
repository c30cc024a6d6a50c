"""What the admin API says of the cluster, as far as the command line shows it."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationError

from llmgw_core.spec.errors import RequestFailed
from llmgw_core.spec.value import Value


class EngineRow(Value):
    """An engine that a node found, and what is wrong with it there."""

    name: str
    version: str | None = None
    problems: tuple[str, ...] = ()


class NodeRow(Value):
    """A node. `silence` is the seconds since its last report."""

    name: str
    state: str = ""
    silence: float | None = None
    cpus: int | None = None
    memory_mib: int | None = None
    gpus: tuple[Any, ...] = ()
    engines: tuple[EngineRow, ...] = ()
    problems: tuple[str, ...] = ()
    address: str | None = None


class FailureRow(Value):
    """Why a replica ended: class, one sentence, the engine's last lines, what to do."""

    kind: str = Field(default="crash", alias="class")
    detail: str | None = None
    tail: str | None = None
    hint: str | None = None


class ModelRow(Value):
    """A model: how many replicas it wants and has, why not more, what happens next, by which engines."""

    name: str
    state: str = ""
    wanted: int = 0
    ready: int = 0
    reason: str | None = None
    next: str | None = None
    failure: FailureRow | None = None
    engines: tuple[str, ...] = ()


class ReplicaRow(Value):
    """A replica. `for_seconds` is its time in this state; `progress` goes from 0 to 1."""

    id: str
    model: str
    state: str
    for_seconds: float | None = None
    nodes: tuple[str, ...] = ()
    why: str | None = None
    progress: float | None = None
    progress_text: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    url: str | None = None
    failure: FailureRow | None = None
    adopted: bool = False
    pids: tuple[int, ...] = ()


class ClusterStatus(Value):
    """`GET /admin/v1/status`."""

    ready: bool = False
    nodes: tuple[NodeRow, ...] = ()
    models: tuple[ModelRow, ...] = ()
    replicas: tuple[ReplicaRow, ...] = ()


def read_status(answer: object) -> ClusterStatus:
    """The status in an answer of the admin API. Raises RequestFailed when it is something else."""
    try:
        return ClusterStatus.model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RequestFailed(f"a status that is not understood: {place}: {first['msg']}") from None
