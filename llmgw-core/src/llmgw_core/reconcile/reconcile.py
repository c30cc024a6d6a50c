"""One pass of the reconciler: desired and actual in, a decision out. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from llmgw_core.catalog.model import Catalog, Model
from llmgw_core.inventory.inventory import Inventory
from llmgw_core.placement.place import place
from llmgw_core.placement.plugins import PlacementPlugins
from llmgw_core.placement.result import Placement, Unschedulable
from llmgw_core.placement.steering import Steering
from llmgw_core.reconcile.backoff import Backoff, after_failure
from llmgw_core.reconcile.build import shards_of
from llmgw_core.reconcile.decision import Decision, Event
from llmgw_core.reconcile.gather import gather
from llmgw_core.reconcile.judge import Verdict, judge, set_goal, stop
from llmgw_core.reconcile.state import LIVE, OVER, Actual, Replica
from llmgw_core.spec.identity import shard_id
from llmgw_core.spec.intent import Intent
from llmgw_core.spec.shard import Shard


def reconcile(
    catalog: Catalog,
    actual: Actual,
    *,
    now: float,
    jitter: float,
    new_replica: str,
    plugins: PlacementPlugins | None = None,
) -> Decision:
    """Compare what the catalog asks for with what is there.

    `now` is in monotonic seconds, `jitter` in [0, 1), `new_replica` an id that was never used. Level
    triggered: it looks at the whole of both sides, and calling it again changes nothing more.
    """
    verdicts = [judge(replica, catalog, actual) for replica in gather(actual)]
    verdicts = _scale_down(verdicts, catalog, actual)
    backoff, events = _backoff(verdicts, catalog, actual, now, jitter)
    held = held_shards(tuple(verdict.replica for verdict in verdicts))
    inventory = Inventory(actual.nodes, held).following(actual.before)
    placements = _place(
        verdicts, catalog, replace(actual, backoff=backoff), inventory, now=now, plugins=plugins
    )
    new, placed = _new_replica(placements, catalog, actual, new_replica)
    return Decision(
        put=tuple(intent for verdict in verdicts for intent in verdict.put) + new,
        drop=_drop(verdicts),
        dismiss=_dismiss(verdicts, actual),
        backoff=backoff,
        replicas=tuple(verdict.replica for verdict in verdicts),
        placements=placements,
        events=events + placed,
        more=bool(new),
        inventory=inventory,
    )


def _drop(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    over = (verdict.replica for verdict in verdicts if verdict.over)
    return tuple(rank.intent.shard.shard for replica in over for rank in replica.ranks if rank.intent)


def _dismiss(verdicts: Sequence[Verdict], actual: Actual) -> Mapping[str, frozenset[str]]:
    """What nodes may forget: ranks of replicas that are over, and ends that belong to no replica any more.

    The latter are of dismissals that were lost on their way.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    known = {shard_id(v.replica.id, rank) for v in verdicts for rank in range(len(v.replica.ranks))}
    for node in actual.nodes.values():
        if node.speaks:
            ended = {shard for shard, status in node.shards.items() if status.ended}
            if strays := (ended | node.refused.keys()) - known:
                found[node.name] |= strays
    for verdict in verdicts:
        if verdict.over:
            for number, rank in enumerate(verdict.replica.ranks):
                if rank.fate in ("ended", "refused"):
                    found[rank.node].add(f"{verdict.replica.id}/{number}")
    return {node: frozenset(shards) for node, shards in found.items()}


def _scale_down(verdicts: list[Verdict], catalog: Catalog, actual: Actual) -> list[Verdict]:
    """Unknown replicas and those on a late node hold back placing, but nothing heard is drained for them."""
    surplus: set[str] = set()
    for model in catalog.models.values():
        own = [verdict.replica for verdict in verdicts if verdict.replica.model == model.name]
        heard = [replica for replica in own if replica.state in LIVE and not replica.late]
        spare = len(heard) - model.scaling.min_replicas
        if spare > 0:
            order = sorted(heard, key=lambda replica: _usefulness(replica, actual))
            surplus |= {replica.id for replica in order[:spare]}
    return [_shrink(verdict, actual) if verdict.replica.id in surplus else verdict for verdict in verdicts]


def _usefulness(replica: Replica, actual: Actual) -> tuple[int, int, float, str]:
    """Victims come first: not ready before ready, idle before busy, younger before older."""
    ready = int(replica.state == "Ready")
    return ready, actual.in_flight.get(replica.id, 0), replica.for_seconds, replica.id


def _shrink(verdict: Verdict, actual: Actual) -> Verdict:
    replica = verdict.replica
    reason = "more replicas than the catalog wants"
    if replica.state == "Ready":
        return set_goal(replica, actual, "drain", "Draining", reason)
    return stop(replica, actual, reason)


def _backoff(
    verdicts: Sequence[Verdict], catalog: Catalog, actual: Actual, now: float, jitter: float
) -> tuple[dict[str, Backoff], tuple[Event, ...]]:
    table = {model: entry for model, entry in actual.backoff.items() if model in catalog.models}
    events: list[Event] = []
    for verdict in verdicts:
        replica = verdict.replica
        if replica.failure and _fails_now(verdict):
            entry = after_failure(
                table.get(replica.model),
                replica.failure,
                replica=replica.id,
                nodes=_failed_nodes(replica),
                now=now,
                jitter=jitter,
                catalog=catalog.revision,
            )
            table[replica.model] = entry
            events.append(Event("replica_failed", f"{replica.model}/{replica.id}", replica.reason))
        elif replica.state == "Ready" and replica.for_seconds >= actual.stable_after:
            table.pop(replica.model, None)
    return table, tuple(events)


def _failed_nodes(replica: Replica) -> tuple[str, ...]:
    """The nodes that told of a failure; without any, those whose rank is gone."""
    told = tuple(rank.node for rank in replica.ranks if rank.status and rank.status.failure)
    return told or tuple(rank.node for rank in replica.ranks if rank.fate in OVER)


def _fails_now(verdict: Verdict) -> bool:
    """Whether this pass is the one that counts the failure.

    A replica without an intent was counted before and only waits to be dismissed; one that is being
    stopped counts in the pass that decided it.
    """
    return bool(verdict.put) if verdict.replica.state == "Stopping" else verdict.replica.matched


def _place(
    verdicts: Sequence[Verdict],
    catalog: Catalog,
    actual: Actual,
    inventory: Inventory,
    *,
    now: float,
    plugins: PlacementPlugins | None,
) -> dict[str, Placement | Unschedulable]:
    """Placement's answers for models that lack a replica, up to and with the first that fits."""
    failed = {
        (model, node): until
        for model, entry in actual.backoff.items()
        for node, until in entry.failed_on.items()
    }
    steering = Steering(failed=failed, now=now)
    answers: dict[str, Placement | Unschedulable] = {}
    for model in catalog.models.values():
        if counted(model, verdicts) >= model.scaling.min_replicas:
            continue
        entry = actual.backoff.get(model.name)
        if entry is not None and entry.holds(now, catalog.revision):
            continue
        answers[model.name] = place(
            model, inventory, engines=actual.engines, plugins=plugins, steering=steering
        )
        if isinstance(answers[model.name], Placement):
            break
    return answers


def counted(model: Model, verdicts: Sequence[Verdict]) -> int:
    """How many replicas a model has for the purpose of placing more."""
    counts = LIVE | {"Unknown", "Held"} | ({"Lost"} if model.on_lost == "wait" else set())
    own = [verdict.replica for verdict in verdicts if verdict.replica.model == model.name]
    # One that ends by itself counts until it is judged: whether it failed decides when the next may come.
    ending = sum(replica.state == "Stopping" and "stop" not in replica.goals for replica in own)
    return ending + sum(replica.state in counts for replica in own)


def held_shards(replicas: Sequence[Replica]) -> tuple[Shard, ...]:
    """Shards that hold resources: everything that no confirmed fact has ended."""
    return tuple(
        rank.shard
        for replica in replicas
        for rank in replica.ranks
        if rank.shard is not None and rank.fate not in OVER
    )


def _new_replica(
    placements: Mapping[str, Placement | Unschedulable], catalog: Catalog, actual: Actual, replica: str
) -> tuple[tuple[Intent, ...], tuple[Event, ...]]:
    """The intents of the one replica that was placed in this pass, if any, and word of it."""
    for name, found in placements.items():
        if isinstance(found, Placement):
            shards = shards_of(catalog.models[name], found, catalog, actual, replica)
            nodes = " + ".join(node.node for node in found.nodes)
            message = f"placed on {nodes} under profile {found.profile.name}"
            intents = tuple(Intent(shard=shard, epoch=actual.epoch, reason="placed") for shard in shards)
            return intents, (Event("replica_placed", f"{name}/{replica}", message),)
    return (), ()
