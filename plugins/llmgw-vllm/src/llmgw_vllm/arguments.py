"""The operator's engine_args as arguments of `vllm serve`: `--flag=value`, or a flag with a list of items."""

from __future__ import annotations

import re
from collections.abc import Mapping

from llmgw_core.spec import EngineArg, Unsupported

from llmgw_vllm.owned import flag_fault, needs_remote_code
from llmgw_vllm.release import Release

__all__ = ["operator_flags"]

_FLAG = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
# A dot leads to one key of a JSON value: compilation-config.level.
_PATH = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)
_OTHERS_CODE = "it lets other code into the engine; set the profile's `allow_remote_code: true` for that"


def operator_flags(
    engine_args: Mapping[str, EngineArg], release: Release, *, allow_remote_code: bool
) -> tuple[str, ...]:
    """The argv items of all engine arguments, in the order of their names.

    Raises Unsupported, with the key as it was written, for a flag that llmgw sets itself, one that brings
    code of others without the operator's word for it, one that is given in two spellings, a value that would
    be read as another flag, and what the release does not take.
    """
    found: dict[str, tuple[str, ...]] = {}
    for key, value in sorted(engine_args.items()):
        field = f"engine_args.{key}"
        flag, path = _name(field, key)
        if reason := flag_fault(flag):
            raise Unsupported(field, reason)
        if needs_remote_code(flag) and not allow_remote_code:
            raise Unsupported(field, _OTHERS_CODE)
        items = _items(field, flag + path, value)
        if fault := release.fault(items):
            raise Unsupported(field, fault)
        known = release.table.by_name.get(f"--{flag}")
        family = (known.names[0] if known else flag) + path
        if family in found:
            raise Unsupported(field, "given twice, in two spellings")
        found[family] = items
    return tuple(item for items in found.values() for item in items)


def _name(field: str, key: str) -> tuple[str, str]:
    """The flag as its help shows it, without dashes, and what follows it to a key of its JSON value."""
    flag, dot, path = key.removeprefix("--").partition(".")
    flag = flag.replace("_", "-")
    if _FLAG.fullmatch(flag) is None or (dot and _PATH.fullmatch(path) is None):
        raise Unsupported(field, "not the long name of a flag")
    return flag, dot + path


def _items(field: str, name: str, value: EngineArg) -> tuple[str, ...]:
    if value is None or value is True:
        return (f"--{name}",)
    if value is False:
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
