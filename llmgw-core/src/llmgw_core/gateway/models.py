"""`/v1/models`: what a key may use, and how it stands."""

from __future__ import annotations

from typing import Any

from llmgw_core.gateway.keyring import KnownKey
from llmgw_core.spec import ModelEntry
from llmgw_core.traffic.table import EndpointTable

_NO_DATE = 0
"""`created` must be a number for OpenAI's clients; when a model was made is not known here."""


def model_list(table: EndpointTable, key: KnownKey) -> dict[str, Any]:
    """The models that `key` may use, by name."""
    models = [model for _, model in sorted(table.models.items()) if key.may_use(model)]
    return {"object": "list", "data": [one_model(table, model) for model in models]}


def one_model(table: EndpointTable, model: ModelEntry) -> dict[str, Any]:
    """A model in OpenAI's form, with what llmgw knows besides."""
    return {
        "id": model.name,
        "object": "model",
        "created": _NO_DATE,
        "owned_by": "llmgw",
        "ready": bool(table.of_model(model.name)),
        "state": model.state,
        "context_length": model.context_length,
        "aliases": list(model.aliases),
    }
