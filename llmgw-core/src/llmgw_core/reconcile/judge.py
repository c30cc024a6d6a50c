"""The state of one replica, first row of the table that holds, and what follows for its intents."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmgw_core.catalog.model import Catalog, launch_revision
from llmgw_core.reconcile.state import OVER, Actual, Rank, Replica, ReplicaState
from llmgw_core.spec.intent import Intent
from llmgw_core.spec.status import AgentGoal, Failure

_ENDING = frozenset({"Stopping", "Unkillable", "Stopped", "Failed"})
_RUNNING = frozenset({"Loading", "Ready", "Unhealthy", "Draining"})


@dataclass(frozen=True)
class Verdict:
    """A judged replica, the intents to write for it, and whether it is over and may be forgotten."""

    replica: Replica
    put: tuple[Intent, ...] = ()
    over: bool = False


def judge(replica: Replica, catalog: Catalog, actual: Actual) -> Verdict:
    """Judge one replica; the first rule that applies decides."""
    over = [rank.fate in OVER for rank in replica.ranks]
    if all(over):
        return _final(replica)
    if "stop" in replica.goals:
        return stop(replica, actual, _stop_reason(replica))
    if any(over):
        if not replica.matched and actual.quiet:
            return _is(replica, "Unknown", "half of it was reported; waiting for the other nodes")
        return _fail(replica, actual, _failure(replica))
    unwanted = _unwanted(replica, catalog)
    if unwanted:
        if replica.about.catalog_revision not in actual.known_revisions:
            return _is(replica, "Held", "its catalog revision is newer than this store")
        if replica.matched or not actual.quiet:
            return stop(replica, actual, unwanted)
        return _is(replica, "Unknown", f"{unwanted}; nothing unmatched is stopped so soon after a start")
    return _alive(replica, actual)


def _unwanted(replica: Replica, catalog: Catalog) -> str | None:
    model = catalog.models.get(replica.model)
    if model is None:
        return "its model left the catalog"
    if replica.about.revision not in {launch_revision(model, profile) for profile in model.profiles}:
        return "its launch form left the catalog"
    return None


def _alive(replica: Replica, actual: Actual) -> Verdict:
    fates = {rank.fate for rank in replica.ranks}
    taken = _take_over(replica)
    if "lost" in fates:
        return _is(replica, "Lost", "its node is Lost", taken)
    if "drain" in replica.goals:
        return _draining(replica, actual)
    if "unknown" in fates:
        return _is(replica, "Unknown", "its node has not reported yet", taken)
    return _starting(replica, actual, taken)


def _starting(replica: Replica, actual: Actual, taken: tuple[Intent, ...]) -> Verdict:
    states = [rank.status.state if rank.status else None for rank in replica.ranks]
    overdue = _overdue(replica, actual)
    if overdue:
        return _fail(replica, actual, Failure(failure="crash", detail=overdue))
    if all(state == "Ready" for state in states):
        return _is(replica, "Ready", "", taken)
    if all(state in _RUNNING for state in states):
        return _is(replica, "Loading", _progress(replica), taken)
    if _ENDING & {state for state in states if state}:
        return _is(replica, "Stopping", _progress(replica), taken)
    if any(states):
        return _is(replica, "Starting", _progress(replica), taken)
    return _is(replica, "Pending", "sent to its node", taken)


def _overdue(replica: Replica, actual: Actual) -> str | None:
    """Limits are judged by what the node says of its own time, in a report that is not late."""
    if replica.late:
        return None
    for rank in replica.ranks:
        status, shard = rank.status, rank.shard
        if status is None or shard is None:
            continue
        limits = {
            "Pending": (shard.timeouts.start + shard.timeouts.wait, "start_timeout"),
            "Starting": (shard.timeouts.start, "start_timeout"),
            "Loading": (shard.timeouts.load, "load_timeout"),
            "Unhealthy": (actual.unhealthy_limit, "unhealthy"),
        }
        limit, name = limits.get(status.state, (None, ""))
        if limit is not None and status.for_seconds > limit:
            return f"{name}: {status.state} for more than {limit:g} s on {rank.node}"
    return None


def _draining(replica: Replica, actual: Actual) -> Verdict:
    leader = replica.ranks[0]
    # An agent that has not acknowledged the drain may still be sent requests by its own queue.
    acknowledged = leader.status is not None and leader.status.state == "Draining"
    load = leader.status.load if leader.status else None
    busy = actual.in_flight.get(replica.id, 0) + ((load.running or 0) + (load.waiting or 0) if load else 0)
    left = actual.gateways_settled and replica.id not in actual.still_routed
    if acknowledged and left and not busy:
        return stop(replica, actual, "drained")
    if acknowledged and replica.for_seconds > replica.about.timeouts.drain:
        return stop(replica, actual, "drain_timeout passed")
    return set_goal(replica, actual, "drain", "Draining", _stop_reason(replica))


def _final(replica: Replica) -> Verdict:
    if "stop" in replica.goals:
        return Verdict(replace(replica, state="Stopped", reason=_stop_reason(replica)), over=True)
    if all(_blameless(rank) for rank in replica.ranks):
        return Verdict(replace(replica, state="Stopped", reason="stopped on its node"), over=True)
    failure = _failure(replica)
    reason = f"{failure.failure}: {failure.detail}" if failure.detail else failure.failure
    return Verdict(replace(replica, state="Failed", reason=reason, failure=failure), over=True)


def _blameless(rank: Rank) -> bool:
    """Whether this rank ended without having failed: stopped on its node, or never sent to it."""
    if rank.status is not None:
        return rank.status.state == "Stopped"
    return rank.fate == "vanished" and rank.intent is not None and rank.intent.number is None


def _failure(replica: Replica) -> Failure:
    """The first failure that a rank tells of; one that its node reported says the most."""
    reported = [rank.status.failure for rank in replica.ranks if rank.status and rank.status.failure]
    if reported:
        return reported[0]
    for rank in replica.ranks:
        if rank.fate == "refused":
            return Failure(failure="agent", detail=f"{rank.node} refused it: {rank.refusal}")
        if rank.fate in OVER:
            return Failure(failure="vanished", detail=f"{rank.node} does not list {_name(replica, rank)}")
    return Failure(failure="crash")


def _name(replica: Replica, rank: Rank) -> str:
    return rank.shard.shard if rank.shard else replica.id


def _fail(replica: Replica, actual: Actual, failure: Failure) -> Verdict:
    """One shard failed, so the replica did: the others wait on collectives that will never complete."""
    verdict = stop(replica, actual, f"{failure.failure}: {failure.detail}")
    return replace(verdict, replica=replace(verdict.replica, failure=failure))


def stop(replica: Replica, actual: Actual, reason: str) -> Verdict:
    """Decide that every shard of a replica goes: those held as intents and those only reported."""
    return set_goal(replica, actual, "stop", "Stopping", reason)


def set_goal(replica: Replica, actual: Actual, goal: AgentGoal, state: ReplicaState, reason: str) -> Verdict:
    """Give a goal to every shard that is held as an intent or reported with live processes."""
    changed = (_with_goal(rank, actual, goal, reason) for rank in replica.ranks)
    put = tuple(intent for intent in changed if intent is not None)
    return Verdict(replace(replica, state=state, reason=reason), put)


def _with_goal(rank: Rank, actual: Actual, goal: AgentGoal, reason: str) -> Intent | None:
    if rank.intent is not None:
        return _changed(rank.intent, actual, goal, reason)
    if rank.shard is None or rank.fate in OVER:
        return None
    taken = Intent(shard=rank.shard, goal=goal, epoch=rank.shard.epoch, number=0, reason=reason)
    return _changed(taken, actual, goal, reason) if goal == "stop" else taken


def _changed(intent: Intent, actual: Actual, goal: AgentGoal, reason: str) -> Intent | None:
    if intent.goal == goal and (goal != "stop" or intent.number != 0):
        return None
    change: dict[str, object] = {"goal": goal, "reason": reason}
    if goal == "stop":
        # A stop takes a new stamp: otherwise an agent that applied the run would seem to have obeyed it.
        change |= {"epoch": actual.epoch, "number": None, "grace": actual.kill_timeout}
    return intent.model_copy(update=change)


def _take_over(replica: Replica) -> tuple[Intent, ...]:
    """Every reported rank without a row gets one: the report becomes an intent that was named long ago."""
    return tuple(
        Intent(
            shard=rank.shard,
            goal="drain" if rank.status.goal == "drain" else "run",
            epoch=rank.shard.epoch,
            number=0,
            reason="taken over from its node's report",
        )
        for rank in replica.ranks
        if rank.intent is None and rank.fate == "there" and rank.shard is not None and rank.status is not None
    )


def _is(replica: Replica, state: ReplicaState, reason: str, put: tuple[Intent, ...] = ()) -> Verdict:
    return Verdict(replace(replica, state=state, reason=reason), put)


def _progress(replica: Replica) -> str:
    for rank in replica.ranks:
        status = rank.status
        if status is not None and status.state != "Ready":
            return status.detail or status.progress_text
    return ""


def _stop_reason(replica: Replica) -> str:
    reasons = (rank.intent.reason for rank in replica.ranks if rank.intent and rank.intent.reason)
    return next(reasons, "")
