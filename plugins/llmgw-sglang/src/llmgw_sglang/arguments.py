"""The operator's engine_args as arguments of `sglang serve`: `--flag=value`, or a flag with a list."""

from __future__ import annotations

import re
from collections.abc import Mapping

from llmgw_core.spec import EngineArg, Unsupported

from llmgw_sglang.owned import flag_fault, needs_remote_code
from llmgw_sglang.release import Release

__all__ = ["operator_flags"]

_NAME = re.compile(r"[a-z][a-z0-9-]*")
# What argparse takes for a negative number and not for a flag.
_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_OTHERS_CODE = "it lets other code into the engine; set the profile's `allow_remote_code: true` for that"


def operator_flags(
    engine_args: Mapping[str, EngineArg], release: Release, *, allow_remote_code: bool
) -> dict[str, tuple[str, ...]]:
    """First name of the flag → argv items of every engine argument, in the order of their names.

    Raises Unsupported, with the key as it was written, for a flag that llmgw sets itself, one that brings
    code of others without the operator's word for it, one that is given in two spellings, a value that would
    be read as another flag, and what the release does not take.
    """
    found: dict[str, tuple[str, ...]] = {}
    for key, value in sorted(engine_args.items()):
        field = f"engine_args.{key}"
        name = key.removeprefix("--").replace("_", "-")
        if _NAME.fullmatch(name) is None:
            raise Unsupported(field, "not the long name of a flag")
        if reason := flag_fault(name):
            raise Unsupported(field, reason)
        if needs_remote_code(name) and not allow_remote_code:
            raise Unsupported(field, _OTHERS_CODE)
        items = _items(field, name, value, release)
        if fault := release.fault(items):
            raise Unsupported(field, fault)
        flag = release.table.by_name.get(f"--{name}")
        family = flag.names[0] if flag else f"--{name}"
        if family in found:
            raise Unsupported(field, "given twice, in two spellings")
        found[family] = items
    return found


def _items(field: str, name: str, value: EngineArg, release: Release) -> tuple[str, ...]:
    if value is None or value is True:
        return (f"--{name}",)
    if value is False:
        if not release.has(f"--no-{name}"):
            raise Unsupported(field, "a switch of SGLang is off where it is not given; leave it out")
        return (f"--no-{name}",)
    if not isinstance(value, tuple):
        # One argument, so that a value that begins with a dash stays a value.
        return (f"--{name}={_text(field, value)}",)
    items = tuple(_text(field, item) for item in value)
    if not items:
        raise Unsupported(field, "a list needs at least one item")
    if any(item.startswith("-") and _NUMBER.fullmatch(item) is None for item in items):
        raise Unsupported(field, "an item of a list that begins with a dash would be read as another flag")
    return (f"--{name}", *items)


def _text(field: str, value: str | float) -> str:
    text = str(value)
    if "\0" in text:
        raise Unsupported(field, "a NUL character cannot be passed to a program")
    return text
