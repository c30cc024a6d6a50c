"""The screen of `llmgw up` as values: one row for each part and model. Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from llmgw_core.cli.admin_view import FailureRow, ModelRow, NodeRow, ReplicaRow
from llmgw_core.cli.up.supervisor import ChildState
from llmgw_core.cli.up.watch import Sight
from llmgw_core.logging import hide_secrets
from llmgw_core.spec.units import format_duration

TAIL_LINES = 6
SEVERAL = 3
"""So many ends in a row are no accident any more."""
COMING = ("ready", "loading", "starting", "pending", "unknown", "draining", "stopping")
PORT_TAKEN = re.compile(r"port \d+ is in use")
"""As every daemon says it; the setting that it names is its own, and `up` has made that."""


@dataclass(frozen=True)
class Row:
    """One line. `detail` may change without being news: seconds, what an engine says of its progress."""

    name: str
    state: str
    text: str = ""
    detail: str = ""
    progress: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def news(self) -> tuple[object, ...]:
        """Changes when a person who reads line by line should get a new line."""
        quarter = None if self.progress is None else int(self.progress * 4)
        return self.name, self.state, self.text, quarter, self.notes


@dataclass(frozen=True)
class Places:
    """The addresses that the screen names."""

    admin_url: str
    gateway_url: str


def rows(
    places: Places, sight: Sight, children: Mapping[str, ChildState], silent: Container[str] = ()
) -> tuple[Row, ...]:
    """The whole screen. `silent` has each child that runs and answered before, and does not now."""
    return (
        _child("control plane", children["server"], _control_plane(places, sight), "server" in silent),
        _child("agent", children["agent"], _agent(sight, children["agent"]), "agent" in silent),
        *(_model(model, sight) for model in sight.models()),
        _child("gateway", children["gateway"], _gateway(places, sight), "gateway" in silent),
    )


def _child(name: str, child: ChildState, row: Row, silent: bool) -> Row:
    """`row` is what is to be shown of a child that runs."""
    if child.pid is None and child.ended is not None:
        again = f"started again in {format_duration(child.retry_in or 0.0)}"
        return Row(name, "down", _end(child), again, notes=_way_out(child))
    if silent:
        return Row(name, "silent", f"does not answer any more (pid {child.pid})")
    return replace(row, text=f"{row.text}{_remark(child)}".strip())


def _control_plane(places: Places, sight: Sight) -> Row:
    return Row("control plane", "starting" if sight.status is None else "ready", places.admin_url)


def _gateway(places: Places, sight: Sight) -> Row:
    url = f"{places.gateway_url}/v1"
    if sight.served is None:
        return Row("gateway", "starting", url)
    count = len(sight.served)
    return Row("gateway", "ready", f"{url} ({count} model{'' if count == 1 else 's'})")


def _agent(sight: Sight, child: ChildState) -> Row:
    node = sight.node()
    if node is not None:
        return Row("agent", node.state, _machine(node), notes=_node_notes(node, sight))
    looks = child.pid is not None and sight.status is not None
    return Row("agent", "starting", "looks at this machine's hardware and engines" if looks else "")


def _node_notes(node: NodeRow, sight: Sight) -> tuple[str, ...]:
    wanted = {name for model in sight.models() if model.state == "unschedulable" for name in model.engines}
    missing = [engine for engine in node.engines if engine.name in wanted]
    problems = [f"{engine.name}: {problem}" for engine in missing for problem in engine.problems]
    return (*node.problems, *problems)


def _machine(node: NodeRow) -> str:
    cpus, memory = node.cpus or 0, (node.memory_mib or 0) / 1024
    gpus = f"{len(node.gpus)} GPU{'' if len(node.gpus) == 1 else 's'}" if node.gpus else "no GPU"
    return f"this machine: {cpus} CPU{'' if cpus == 1 else 's'}, {memory:.0f} GiB, {gpus}"


def _remark(child: ChildState) -> str:
    if child.ended is not None:
        return f" (started again: {_end(child)})"
    return f" (taken over, pid {child.pid})" if child.adopted else ""


def _way_out(child: ChildState) -> tuple[str, ...]:
    if PORT_TAKEN.search(child.words):
        return ("→ stop what holds the port; or Ctrl-C, and start `llmgw up` with another --port",)
    if child.failures >= SEVERAL:
        return ("→ it is tried again every 30 s at least; put right what it says, or Ctrl-C",)
    return ()


def _end(child: ChildState) -> str:
    """How it ended last, what it said, and how often that has happened."""
    often = f"failed {child.failures} times in a row: " if child.failures >= SEVERAL else ""
    words = f": {hide_secrets(child.words)}" if child.words else ""
    return f"{often}{child.ended}{words}"


def _model(model: ModelRow, sight: Sight) -> Row:
    if sight.node() is None and not sight.replicas_of(model.name):
        return Row(model.name, "waiting", "for the agent")
    replica = _foremost(sight.replicas_of(model.name))
    if model.state == "ready" and replica is not None:
        return Row(model.name, "ready", _engine(replica) + (", adopted" if replica.adopted else ""))
    if replica is None or model.state in {"failed", "unschedulable"}:
        return _held_up(model)
    return Row(model.name, model.state, _engine(replica), _progress(replica), replica.progress)


def _progress(replica: ReplicaRow) -> str:
    # While an engine loads, the reason is the probe that it does not answer yet: no news to anybody.
    told = replica.progress_text or ("" if replica.state in {"Loading", "Starting"} else replica.why)
    return ", ".join(part for part in (told, format_duration(replica.for_seconds or 0.0)) if part)


def _held_up(model: ModelRow) -> Row:
    notes = _failure_notes(model.failure) if model.failure else ()
    return Row(model.name, model.state, hide_secrets(model.reason or ""), model.next or "", notes=notes)


def _failure_notes(failure: FailureRow) -> tuple[str, ...]:
    lines = hide_secrets(failure.tail or "").strip().splitlines()[-TAIL_LINES:]
    heading = ("the engine's last lines:",) if lines else ()
    advice = (f"→ {failure.hint}",) if failure.hint else ()
    return (*heading, *(f"| {line}" for line in lines), *advice)


def _foremost(replicas: Sequence[ReplicaRow]) -> ReplicaRow | None:
    live = [row for row in replicas if row.state.lower() in COMING]
    return min(live, key=lambda row: COMING.index(row.state.lower()), default=None)


def _engine(replica: ReplicaRow) -> str:
    return " ".join(part for part in (replica.engine, replica.engine_version) if part)


def verdict(sight: Sight) -> str | None:
    """A plain word when nothing is served and nothing will be before somebody acts; else None."""
    models = sight.models()
    if not models or any(not _hopeless(model) for model in models):
        return None
    who = models[0].name if len(models) == 1 else "every model of the catalog"
    return (
        f"Nothing is served: {who} cannot start as it is configured.\n"
        "  Ctrl-C, put right what is said above, and start again."
    )


def _hopeless(model: ModelRow) -> bool:
    return model.state == "failed" and model.failure is not None and model.failure.kind == "configuration"
