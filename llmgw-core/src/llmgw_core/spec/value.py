"""Bases of the frozen values: wire models ignore unknown fields, config models forbid them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainSerializer

__all__ = ["ConfigValue", "FrozenMap", "Value"]

K = TypeVar("K")
V = TypeVar("V")


def _freeze(mapping: Mapping[K, V]) -> Mapping[K, V]:
    return MappingProxyType(dict(mapping))


FrozenMap = Annotated[Mapping[K, V], AfterValidator(_freeze), PlainSerializer(dict, return_type=dict)]
"""A read-only mapping that travels as a JSON object."""


class Value(BaseModel):
    """A frozen value that may come from another version of llmgw: unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class ConfigValue(BaseModel):
    """A frozen value that a person wrote: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
