"""What pydantic found wrong with a part of the catalog, in sentences for its operator.

Messages name types and bounds, never a value out of `env`: it may be a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from llmgw_core.catalog.fault import Fault, Path
from llmgw_core.catalog.schema import PATTERNS

_TYPES = {
    "int_type": "has to be a whole number",
    "float_type": "has to be a number",
    "bool_type": "has to be true or false",
    "string_type": "has to be text",
    "list_type": "has to be a list",
    "dict_type": "has to be a mapping",
    "model_type": "has to be a mapping",
    "model_attributes_type": "has to be a mapping",
}
_FIXES = {
    "string_type": "put it in quotes",
    "list_type": "write it in brackets, like [a, b]",
    "dict_type": "write it as key: value",
    "model_type": "write it as key: value",
}
_KINDS = {
    str: "text",
    bool: "true/false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a mapping",
}


def faults_of(error: ValidationError, kind: type[BaseModel], raw: Any, base: Path) -> list[Fault]:
    """Every fault of the part at `base` that was read as `kind`, one for each place."""
    faults = (_fault(details, kind, raw, base) for details in error.errors(include_url=False))
    return list({(fault.path, fault.at_key): fault for fault in faults}.values())


def phrase(details: ErrorDetails) -> tuple[str, str]:
    """What is wrong with one value, to be read behind its name, and the fix."""
    return _sentence(details), _fix(details)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.7)), None)


def _fault(details: ErrorDetails, kind: type[BaseModel], raw: Any, base: Path) -> Fault:
    loc, code = tuple(details["loc"]), details["type"]
    if code == "extra_forbidden":
        return _unknown_key(loc, kind, base)
    if code == "missing":
        return Fault(base + loc[:-1], f"{loc[-1]!r} is missing", f"add `{loc[-1]}:`", at_key=True)
    written = _written(loc, raw)
    rest, path = loc[len(written) :], base + written
    if rest == ("[key]",):
        return Fault(path, f"the name {written[-1]!r} {_sentence(details)}", _fix(details), at_key=True)
    if rest:
        message = "has to be text, a number, true or false, or a list of those"
        return Fault(path, message, "for a switch without a value write true")
    sentence = _sentence(details)
    return Fault(path, sentence if path else f"the catalog {sentence}", _fix(details))


def _written(loc: Path, raw: Any) -> Path:
    # A location also names the branches of a union that were tried; those stand in no file.
    for depth, step in enumerate(loc):
        there = isinstance(raw, Mapping | list) and (
            step in raw if isinstance(raw, Mapping) else step != "[key]"
        )
        if not there or (isinstance(raw, list) and not isinstance(step, int)):
            return loc[:depth]
        raw = raw[step]
    return loc


def _unknown_key(loc: Path, kind: type[BaseModel], base: Path) -> Fault:
    known = _fields_at(kind, loc[:-1])
    meant = nearest(str(loc[-1]), known)
    fix = f"did you mean {meant!r}?" if meant else f"known keys: {', '.join(known)}"
    return Fault(base + loc, f"the key {loc[-1]!r} is not known", fix, at_key=True)


def _fields_at(kind: type[BaseModel], loc: Path) -> tuple[str, ...]:
    for step in loc:
        annotation = kind.model_fields[str(step)].annotation
        kinds = [part for part in (annotation, *get_args(annotation)) if isinstance(part, type)]
        kind = next(part for part in kinds if issubclass(part, BaseModel))
    return tuple(kind.model_fields)


def _sentence(details: ErrorDetails) -> str:
    code, context = details["type"], details.get("ctx", {})
    if code in _TYPES:
        return f"{_TYPES[code]}, not {_KINDS.get(type(details['input']), 'empty')}"
    if code == "value_error":
        return str(context["error"])
    if code == "literal_error":
        choice = "one of " if " or " in context["expected"] else ""
        return f"has to be {choice}{context['expected']}"
    if code == "string_pattern_mismatch":
        return PATTERNS[context["pattern"]][0]
    return details["msg"][:1].lower() + details["msg"][1:]


def _fix(details: ErrorDetails) -> str:
    if details["type"] == "literal_error" and isinstance(details["input"], str):
        choices = [
            part.strip().strip("'") for part in details["ctx"]["expected"].replace(" or ", ",").split(",")
        ]
        meant = nearest(details["input"], choices)
        return f"did you mean {meant!r}?" if meant else ""
    if details["type"] == "string_pattern_mismatch":
        return PATTERNS[details["ctx"]["pattern"]][1]
    return _FIXES.get(details["type"], "")
