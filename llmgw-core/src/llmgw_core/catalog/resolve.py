"""Drafts → the catalog that everything else sees, once every cross check has passed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from llmgw_core.catalog.draft import DraftModel, DraftProfile
from llmgw_core.catalog.fault import Fault
from llmgw_core.catalog.model import Catalog, Limits, Model, Scaling
from llmgw_core.catalog.model_checks import check_model
from llmgw_core.catalog.names import check_names
from llmgw_core.catalog.profile_checks import check_profile
from llmgw_core.catalog.schema import ModelFile, ScalingFile
from llmgw_core.spec.engine import EngineInfo
from llmgw_core.spec.gateway import RequestTimeouts
from llmgw_core.spec.shard import EngineArg, Profile


def check(models: tuple[DraftModel, ...], engines: Mapping[str, EngineInfo]) -> Iterator[Fault]:
    """Every fault that shows only when keys, models and engines are seen together."""
    for model in models:
        kind = model.file.kind if model.file else "chat"
        for profile in model.profiles:
            yield from check_profile(profile, kind, engines)
        yield from check_model(model)
    yield from check_names(models)


def resolve(models: tuple[DraftModel, ...], revision: str) -> Catalog:
    """The catalog of drafts in which `check` and the reading found nothing wrong."""
    built = {model.name: _model(model, model.file) for model in models if model.file is not None}
    return Catalog(models=MappingProxyType(built), revision=revision)


def _model(draft: DraftModel, file: ModelFile) -> Model:
    return Model(
        name=draft.name,
        source=file.source or "",
        profiles=tuple(_profile(profile) for profile in draft.profiles),
        aliases=tuple(file.aliases),
        fallbacks=tuple(file.fallbacks),
        scaling=_scaling(file.scaling),
        limits=Limits(**file.limits.model_dump()),
        on_lost=file.on_lost,
        stop_on_client_after=file.stop_on_client_after,
        kind=file.kind,
        routing=file.routing,
        timeouts=RequestTimeouts(**file.timeouts.model_dump()),
    )


def _scaling(file: ScalingFile) -> Scaling:
    written = file.model_dump(exclude={"max_replicas"})
    return Scaling(**written, max_replicas=file.max_replicas or max(1, file.min_replicas))


def _profile(draft: DraftProfile) -> Profile:
    file = draft.file
    written = file.model_dump(exclude={"name", "engine", "memory", "engine_args"})
    engine = file.engine or ""
    args: dict[str, EngineArg] = {
        flag: tuple(value) if isinstance(value, list) else value for flag, value in file.engine_args.items()
    }
    return Profile(
        **written, name=file.name or engine, engine=engine, memory_mib=file.memory, engine_args=args
    )
