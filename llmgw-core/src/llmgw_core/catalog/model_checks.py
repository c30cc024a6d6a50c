"""What must hold within one model, beyond its profiles one by one."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw_core.catalog.draft import DraftModel
from llmgw_core.catalog.fault import Fault
from llmgw_core.catalog.schema import ModelFile


def check_model(model: DraftModel) -> Iterator[Fault]:
    """Every fault of the model itself, as far as its keys could be read."""
    yield from _profile_names(model)
    if model.file is not None:
        if model.file.source is None and "source" not in model.broken:
            yield Fault(
                model.path,
                "'source' is missing",
                "add `source:`, a path on the nodes or a hub id",
                at_key=True,
            )
        yield from _scaling(model, model.file)
        yield from _timeouts(model, model.file)


def _profile_names(model: DraftModel) -> Iterator[Fault]:
    first: dict[str, int] = {}
    for profile in model.profiles:
        name, index = profile.file.name, profile.path[-1]
        if name is None and len(model.profiles) > 1 and "name" not in profile.broken:
            message = "'name' is missing: a model with several profiles names each"
            yield Fault(profile.path, message, "add `name:`", at_key=True)
        elif name is not None and name in first:
            message = f"the profile name {name!r} is given twice: first at profiles[{first[name]}]"
            yield Fault((*profile.path, "name"), message, "choose another name")
        elif name is not None and isinstance(index, int):
            first[name] = index


def _scaling(model: DraftModel, file: ModelFile) -> Iterator[Fault]:
    scaling, path = file.scaling, (*model.path, "scaling")
    if scaling.max_replicas is not None and scaling.min_replicas > scaling.max_replicas:
        message = f"min_replicas {scaling.min_replicas} is above max_replicas {scaling.max_replicas}"
        yield Fault((*path, "min_replicas"), message, "raise max_replicas or lower min_replicas")
    if scaling.idle_timeout > 0 and scaling.min_replicas > 0:
        message = f"idle_timeout has no meaning while min_replicas is {scaling.min_replicas}"
        fix = "set min_replicas: 0 to let the model go to sleep, or remove idle_timeout"
        yield Fault((*path, "idle_timeout"), message, fix)


def _timeouts(model: DraftModel, file: ModelFile) -> Iterator[Fault]:
    timeouts = file.timeouts
    for key in ("first_byte", "between_chunks"):
        if getattr(timeouts, key) > timeouts.total:
            message = f"{key} is longer than total, which ends the request first"
            yield Fault((*model.path, "timeouts", key), message, "raise total, or lower it")
