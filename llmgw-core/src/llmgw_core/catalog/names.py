"""What must hold between models: aliases are unique, fallbacks exist and lead somewhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llmgw_core.catalog.draft import DraftModel
from llmgw_core.catalog.fault import Fault
from llmgw_core.catalog.words import nearest


def check_names(models: tuple[DraftModel, ...]) -> Iterator[Fault]:
    """Every fault of aliases and fallbacks, each at the name that is wrong."""
    by_name = {model.name: model for model in models}
    owners: dict[str, str] = {}
    for model in models:
        yield from _aliases(model, by_name, owners)
    for model in models:
        yield from _fallbacks(model, by_name, owners)
    yield from _cycles(by_name)


def _aliases(model: DraftModel, by_name: Mapping[str, DraftModel], owners: dict[str, str]) -> Iterator[Fault]:
    for i, alias in enumerate(model.file.aliases if model.file else ()):
        path = (*model.path, "aliases", i)
        if alias in by_name:
            whose = "the model's own name" if alias == model.name else "the name of another model"
            yield Fault(path, f"the alias {alias!r} is {whose}", "remove it or choose another")
        elif alias in owners:
            whose = "given twice" if owners[alias] == model.name else f"an alias of {owners[alias]!r} as well"
            yield Fault(path, f"the alias {alias!r} is {whose}", "keep one of them")
        else:
            owners[alias] = model.name


def _fallbacks(
    model: DraftModel, by_name: Mapping[str, DraftModel], owners: Mapping[str, str]
) -> Iterator[Fault]:
    seen: set[str] = set()
    for i, name in enumerate(model.file.fallbacks if model.file else ()):
        path = (*model.path, "fallbacks", i)
        if name == model.name:
            yield Fault(path, f"{name!r} falls back to itself", "name another model")
        elif name in seen:
            yield Fault(path, f"the fallback {name!r} is given twice", "keep one of them")
        elif name in owners:
            yield Fault(path, f"the fallback {name!r} is an alias", f"write the model's name, {owners[name]}")
        elif name not in by_name:
            others = [other for other in by_name if other != model.name]
            meant = nearest(name, others)
            fix = f"did you mean {meant!r}?" if meant else f"other models: {', '.join(others) or 'none'}"
            yield Fault(path, f"the fallback {name!r} is not a model of this catalog", fix)
        else:
            yield from _fit(model, by_name[name], i)
        seen.add(name)


def _fit(model: DraftModel, other: DraftModel, index: int) -> Iterator[Fault]:
    if model.file is None or other.file is None:
        return
    path = (*model.path, "fallbacks", index)
    if model.file.kind != other.file.kind:
        message = f"{other.name!r} is of kind {other.file.kind} and cannot serve {model.file.kind} requests"
        yield Fault(path, message, f"name a model of kind {model.file.kind}")
    own, theirs = _contexts(model), _contexts(other)
    if own and theirs and min(theirs) < max(own):
        message = f"{other.name!r} takes {min(theirs)} tokens, fewer than the {max(own)} of {model.name!r}"
        fix = "longer requests will fail there; raise its max_model_len if that matters"
        yield Fault(path, message, fix, severity="warning")


def _contexts(model: DraftModel) -> list[int]:
    lengths = [profile.file.max_model_len for profile in model.profiles]
    return [length for length in lengths if length is not None]


def _cycles(by_name: Mapping[str, DraftModel]) -> Iterator[Fault]:
    done: set[str] = set()
    for name in by_name:
        yield from _walk(name, by_name, done)


def _walk(start: str, by_name: Mapping[str, DraftModel], done: set[str]) -> Iterator[Fault]:
    # Depth first with a stack of its own: a chain of fallbacks may be as long as the catalog.
    trail: dict[str, Iterator[tuple[int, str]]] = {}
    if start not in done:
        trail[start] = _edges(by_name[start], by_name)
    while trail:
        name = next(reversed(trail))
        step = next(trail[name], None)
        if step is None:
            done.add(name)
            del trail[name]
        elif step[1] in trail:
            yield _cycle(name, step, list(trail), by_name)
        elif step[1] not in done:
            trail[step[1]] = _edges(by_name[step[1]], by_name)


def _edges(model: DraftModel, by_name: Mapping[str, DraftModel]) -> Iterator[tuple[int, str]]:
    names = model.file.fallbacks if model.file else []
    return iter([(i, name) for i, name in enumerate(names) if name in by_name and name != model.name])


def _cycle(name: str, step: tuple[int, str], trail: list[str], by_name: Mapping[str, DraftModel]) -> Fault:
    around = " → ".join([*trail[trail.index(step[1]) :], step[1]])
    path = (*by_name[name].path, "fallbacks", step[0])
    return Fault(path, f"the fallbacks go around in a cycle: {around}", "remove one of them")
