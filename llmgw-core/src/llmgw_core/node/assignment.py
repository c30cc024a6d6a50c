"""Which leader an agent obeys, and what an assignment changes: rules 1 to 4 of the stream. Pure.

1. Absence stops nothing: only what `stop` names is stopped.
3. At most once: a shard id that has a record, or was refused, is never started again.
4. Fencing: an assign counts only if its epoch is the one heard last and its number is newer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llmgw_core.node import lifecycle
from llmgw_core.node.effects import Effect, Forget, Start, Stop
from llmgw_core.node.resources import Capacity, conflict
from llmgw_core.node.state import MAX_TERMINAL, NodeState, Record
from llmgw_core.spec.identity import Epoch
from llmgw_core.spec.shard import Shard
from llmgw_core.spec.wire import Assign, Lead, StopOrder


def take_cluster(state: NodeState, cluster: str) -> NodeState | None:
    """The state bound to `cluster`; None when it is bound to another one."""
    if state.cluster not in {None, cluster}:
        return None
    return state if state.cluster == cluster else replace(state, cluster=cluster)


def take_lead(state: NodeState, lead: Lead) -> NodeState | None:
    """The state after a `lead`; None when it is not taken.

    Taken is a number above the highest heard, or an equal one of the same control process. After a lost
    state the process may be unknown (empty), which counts as the same.
    """
    bound = take_cluster(state, lead.cluster)
    if bound is None:
        return None
    heard, epoch = bound.heard, lead.epoch
    same = epoch.number == heard.number and heard.control in {"", epoch.control}
    if epoch.number > heard.number or same:
        return replace(bound, heard=epoch)
    return None


def fenced(state: NodeState, assign: Assign) -> str | None:
    """Why an assign is not to be acted on; None when it counts."""
    if assign.epoch != state.heard:
        return f"epoch {_name(assign.epoch)} is not the one heard ({_name(state.heard)})"
    applied = state.applied
    if applied and applied.at_or_above(assign.stamp):
        return f"number {assign.number} is not newer than {applied.number} of the same leader"
    return None


def take_assign(
    state: NodeState,
    assign: Assign,
    now: float,
    boot: str,
    new_token: Callable[[], str],
    *,
    capacity: Capacity,
) -> tuple[NodeState, tuple[Effect, ...]]:
    """The state after an assign, and what is to be done; the same state when it is fenced off."""
    if fenced(state, assign):
        return state, ()
    state, effects = _stop_named(state, assign.stop, now)
    gone = _dismissed(state, assign)
    state = _without(state, gone, frozenset(assign.dismiss))
    effects += [Forget(shard) for shard in sorted(gone)]
    for shard in assign.run:
        secret = assign.keys.get(shard.replica)
        key = secret.get_secret_value() if secret else None
        if known := state.records.get(shard.shard):
            state = state.put(_named_again(known, shard, key, now))
        elif shard.shard not in {*state.refused, *assign.dismiss}:
            fresh = Record(shard, shard.goal, "Pending", now, boot, new_token(), key)
            state, started = _accept(state, fresh, capacity)
            effects += started
    return replace(state, applied=assign.stamp), tuple(effects)


def acknowledged(state: NodeState, shards: frozenset[str], epoch: Epoch) -> NodeState:
    """The leader of `epoch` has the end of these shards in its state."""
    if epoch != state.heard:
        return state
    seen = {
        shard: replace(record, seen_by=epoch)
        for shard, record in state.records.items()
        if shard in shards and record.ended
    }
    return replace(state, records={**state.records, **seen})


def evicted(state: NodeState) -> frozenset[str]:
    """Terminal records over the cap, oldest first; never one that the leader in office has not seen."""
    ended = sorted((record for record in state.records.values() if record.ended), key=lambda r: r.since)
    over = max(0, len(ended) - MAX_TERMINAL)
    return frozenset([record.id for record in ended if record.seen_by == state.heard][:over])


def _name(epoch: Epoch) -> str:
    return f"{epoch.number} of {epoch.control or 'an unknown process'}"


def _stop_named(
    state: NodeState, orders: tuple[StopOrder, ...], now: float
) -> tuple[NodeState, list[Effect]]:
    effects: list[Effect] = []
    for order in orders:
        record = state.records.get(order.shard)
        if record is None or record.ended:
            continue
        state = state.put(lifecycle.asked_to_stop(record, order.reason, order.grace, now))
        if record.state not in {"Stopping", "Unkillable"}:
            effects.append(Stop(order.shard))
    return state, effects


def _dismissed(state: NodeState, assign: Assign) -> frozenset[str]:
    known = (state.records.get(shard) for shard in assign.dismiss)
    return frozenset(record.id for record in known if record and record.ended)


def _without(state: NodeState, gone: frozenset[str], dismissed: frozenset[str]) -> NodeState:
    refused = {shard: reason for shard, reason in state.refused.items() if shard not in dismissed}
    return replace(state.without(gone), refused=refused)


def _named_again(record: Record, shard: Shard, key: str | None, now: float) -> Record:
    """A known shard changes its goal and nothing else; a key that was lost with the state comes back."""
    record = record if record.key or record.ended else replace(record, key=key)
    return lifecycle.aimed(record, shard.goal, now)


def _accept(state: NodeState, record: Record, capacity: Capacity) -> tuple[NodeState, list[Effect]]:
    found = conflict(state, record.shard, capacity)
    if found and not found.waits:
        return replace(state, refused={**state.refused, record.id: found.reason}), []
    waiting = replace(record, detail=f"waits: {found.reason}") if found else record
    return state.put(waiting), [Start(record.id)]
