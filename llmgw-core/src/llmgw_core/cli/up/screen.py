"""The screen of `llmgw up` as values: one row for each part and model. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmgw_core.cli.admin_view import FailureRow, ModelRow, NodeRow, ReplicaRow
from llmgw_core.cli.up.supervisor import ChildState
from llmgw_core.cli.up.watch import Sight
from llmgw_core.logging import hide_secrets
from llmgw_core.spec.units import format_duration

TAIL_LINES = 6
COMING = ("ready", "loading", "starting", "pending", "unknown", "draining", "stopping")


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
    places: Places, sight: Sight, children: Mapping[str, ChildState], last_words: Mapping[str, str]
) -> tuple[Row, ...]:
    """The whole screen. `last_words` has the last line of the log of each child that is down."""
    down = {name: _down(state, last_words.get(name, "")) for name, state in children.items()}
    return (
        _control_plane(places, sight, children["server"], down["server"]),
        _agent(sight, children["agent"], down["agent"]),
        *(_model(model, sight) for model in sight.models()),
        _gateway(places, sight, children["gateway"], down["gateway"]),
    )


def _down(state: ChildState, last_words: str) -> tuple[str, str] | None:
    """Text and detail of a child that does not run; None for one that does or never did."""
    if state.pid is not None or state.ended is None:
        return None
    told = f"{state.ended}: {hide_secrets(last_words)}" if last_words else state.ended
    return told, f"started again in {format_duration(state.retry_in or 0.0)}"


def _control_plane(places: Places, sight: Sight, child: ChildState, down: tuple[str, str] | None) -> Row:
    if down is not None:
        return Row("control plane", "down", *down)
    state = "starting" if sight.status is None else "ready"
    return Row("control plane", state, places.admin_url + _remark(child))


def _gateway(places: Places, sight: Sight, child: ChildState, down: tuple[str, str] | None) -> Row:
    if down is not None:
        return Row("gateway", "down", *down)
    url = f"{places.gateway_url}/v1"
    if sight.served is None:
        return Row("gateway", "starting", url)
    count = len(sight.served)
    return Row("gateway", "ready", f"{url} ({count} model{'' if count == 1 else 's'}){_remark(child)}")


def _agent(sight: Sight, child: ChildState, down: tuple[str, str] | None) -> Row:
    if down is not None:
        return Row("agent", "down", *down)
    node = sight.node()
    if node is None:
        return Row("agent", "starting")
    return Row("agent", node.state, _machine(node) + _remark(child), notes=_node_notes(node, sight))


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
        return f" (started again: {child.ended})"
    return f" (taken over, pid {child.pid})" if child.adopted else ""


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
