"""The endpoint table as a gateway holds it: which replicas answer for which model. Pure.

Tables come from control planes and are followed by highest (epoch, version). A control plane that does
not know the whole cluster yet (`complete` is false) can only add: what serves must not vanish because
somebody has just started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw_core.spec import NO_EPOCH, Endpoint, Epoch, ModelEntry, Table


@dataclass(frozen=True)
class EndpointTable:
    """Models by name, endpoints by replica id, and the message that they were last taken from."""

    epoch: Epoch = NO_EPOCH
    version: int = 0
    models: Mapping[str, ModelEntry] = field(default_factory=dict)
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    gateways_live: int = 1
    _model_of: Mapping[str, str] = field(default_factory=dict, repr=False)

    def resolve(self, name: str) -> ModelEntry | None:
        """The model that is asked for by its name or by one of its aliases."""
        return self.models.get(self._model_of.get(name, ""))

    def of_model(self, model: str) -> tuple[Endpoint, ...]:
        """Every endpoint of a model that may be routed to, in order of replica ids."""
        return tuple(
            endpoint
            for _, endpoint in sorted(self.endpoints.items())
            if endpoint.model == model and is_routable(endpoint)
        )

    def candidates(self, model: str, path: str) -> tuple[Endpoint, ...]:
        """The routable endpoints of a model whose engine serves `path`."""
        return tuple(endpoint for endpoint in self.of_model(model) if path in endpoint.paths)


def is_routable(endpoint: Endpoint) -> bool:
    """Whether requests may go there at all: never to what drains, or stood on a node given up as lost."""
    return endpoint.state != "draining" and endpoint.node_state != "lost"


def merge(current: EndpointTable, message: Table) -> EndpointTable:
    """The table after `message`; `current` itself when the message is not to be followed."""
    if not _follows(current, message):
        return current
    models = {model.name: model for model in message.models}
    endpoints = {endpoint.replica: endpoint for endpoint in message.endpoints}
    if not message.complete:
        models = {**current.models, **models}
        endpoints = {**_doubted(current.endpoints), **endpoints}
    return EndpointTable(
        epoch=message.epoch,
        version=message.version,
        models=models,
        endpoints=endpoints,
        gateways_live=max(1, message.gateways_live),
        _model_of=_names(models),
    )


def _follows(current: EndpointTable, message: Table) -> bool:
    if message.epoch == current.epoch:
        return message.version > current.version
    # One number of two processes is two epochs, and neither is above the other: the gateway stays with
    # the one it has. Its `load` names that one, so the other leader steps down and comes back above both.
    return message.epoch.number > current.epoch.number


def _doubted(endpoints: Mapping[str, Endpoint]) -> dict[str, Endpoint]:
    """Endpoints that the newest table may not list because it does not know yet: ready becomes unknown."""
    return {
        replica: endpoint.model_copy(update={"state": "unknown"}) if endpoint.state == "ready" else endpoint
        for replica, endpoint in endpoints.items()
    }


def _names(models: Mapping[str, ModelEntry]) -> dict[str, str]:
    """Name or alias → model. A model's own name wins over another model's alias."""
    aliases = {alias: model.name for model in models.values() for alias in model.aliases}
    return {**aliases, **{name: name for name in models}}
