"""The endpoint table: a pure function of replica states, equal on every control plane."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from llmgw_core.catalog.model import Catalog, Model
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.reconcile.backoff import Backoff
from llmgw_core.reconcile.state import Actual, Replica
from llmgw_core.spec.engine import EngineInfo, Signals
from llmgw_core.spec.gateway import Endpoint, ModelEntry

LOADING_RETRY = 5.0


def endpoints(replicas: Sequence[Replica], catalog: Catalog, actual: Actual) -> tuple[Endpoint, ...]:
    """Every replica that may be routed to, or whose running requests must be let finish."""
    found = (_endpoint(replica, catalog.models.get(replica.model), actual) for replica in replicas)
    return tuple(endpoint for endpoint in found if endpoint is not None)


def _endpoint(replica: Replica, model: Model | None, actual: Actual) -> Endpoint | None:
    states = {"Ready": "ready", "Unknown": "unknown", "Draining": "draining", "Held": "unknown"}
    state = states.get(replica.state)
    leader = replica.ranks[0].shard
    if state is None or leader is None:
        return None
    node = actual.nodes.get(leader.node) or NodeView(leader.node)
    if state == "ready" and node.freshness in ("unreachable", "lost"):
        state = "unknown"
    version = _version(node, leader.engine)
    info = actual.engines.get(leader.engine)
    return Endpoint.model_validate(
        {
            "replica": replica.id,
            "model": replica.model,
            "url": f"http://{_host(leader.address)}:{leader.http_port}",
            "engine": leader.engine,
            "version": version,
            "paths": info.paths if info else (),
            "state": state,
            "node_state": node.freshness,
            "max_inflight": model.limits.max_inflight if model else 64,
            "context_length": leader.profile.max_model_len,
            "key_version": leader.key_version,
            "signals": _signals(info),
        }
    )


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _version(node: NodeView, engine: str) -> str:
    found = node.report.engine(engine) if node.report else None
    return (found.version if found else None) or ""


def _signals(info: EngineInfo | None) -> Signals:
    """The names for every version of the engine; version ranges come with the engines' metric contracts."""
    if info is None:
        return Signals()
    return next((contract.signals for contract in info.metrics if not contract.versions), Signals())


def model_entries(
    catalog: Catalog, states: Mapping[str, str], backoff: Mapping[str, Backoff], now: float
) -> tuple[ModelEntry, ...]:
    """The models of the catalog; `states` says in words how each stands."""
    return tuple(
        ModelEntry(
            name=model.name,
            aliases=model.aliases,
            fallbacks=model.fallbacks,
            kind=model.kind,
            timeouts=model.timeouts,
            state=states.get(model.name, ""),
            retry_after=_retry_after(backoff.get(model.name), now),
            context_length=max((p.max_model_len for p in model.profiles if p.max_model_len), default=None),
        )
        for model in catalog.models.values()
    )


def _retry_after(entry: Backoff | None, now: float) -> float:
    if entry is None:
        return LOADING_RETRY
    # In steps: a table that differed in this alone would go to every gateway with every pass.
    steps = math.ceil((entry.until - now) / LOADING_RETRY)
    return min(max(steps * LOADING_RETRY, LOADING_RETRY), 60.0)
