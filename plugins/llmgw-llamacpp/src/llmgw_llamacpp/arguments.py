"""The operator's engine_args as arguments of llama-server: each one item, or one pair."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from llmgw_core.spec import EngineArg, Unsupported

from llmgw_llamacpp.owned import reason_to_refuse
from llmgw_llamacpp.release import Release

__all__ = ["operator_flags", "option_name"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9.-]*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)
# These take a word. YAML reads an unquoted `on` as true, and a bare `--flash-attn` would swallow the next
# argument as its value.
_ON_OFF = frozenset({"fa", "fit", "flash-attn", "lazy-mode", "rea", "reasoning"})


def option_name(key: str) -> str:
    """The name that llama-server's help shows for an engine argument, without the leading dashes."""
    return key.lstrip("-").replace("_", "-")


def operator_flags(engine_args: Mapping[str, EngineArg], release: Release) -> dict[str, tuple[str, ...]]:
    """Name → argv items of every engine argument, by name, as `release` calls them.

    Raises Unsupported, with the key as it was written, for a flag that llmgw sets itself, one that is
    given in two spellings, a value that would be read as another flag, and what the release does not take.
    """
    flags: dict[str, tuple[str, ...]] = {}
    for key, value in sorted(engine_args.items()):
        field = f"engine_args.{key}"
        name = option_name(key)
        if _NAME.fullmatch(name) is None:
            raise Unsupported(field, "not the name of a flag")
        if reason := reason_to_refuse(name):
            raise Unsupported(field, reason)
        name, items = release.spelled(name, tuple(_items(field, name, value)))
        if name in flags:
            raise Unsupported(field, "given twice, in two spellings")
        if fault := release.fault(items):
            raise Unsupported(field, fault)
        flags[name] = items
    return dict(sorted(flags.items()))


def _items(field: str, name: str, value: EngineArg) -> Iterator[str]:
    if name in _ON_OFF and isinstance(value, bool):
        value = "on" if value else "off"
    if value is None or value is True:
        yield f"--{name}"
    elif value is False:
        yield f"--no-{name}"
    else:
        yield f"--{name}"
        yield _text(field, value)


def _text(field: str, value: str | float | tuple[str | int | float, ...]) -> str:
    if isinstance(value, tuple):
        # Of a repeated flag llama-server keeps the last value only: its lists are joined by commas.
        pieces = [_text(field, piece) for piece in value]
        if not pieces or any("," in piece for piece in pieces):
            raise Unsupported(field, "a list needs at least one item, and no item may hold a comma")
        return ",".join(pieces)
    text = str(value)
    if "\0" in text:
        raise Unsupported(field, "a NUL character cannot be passed to a program")
    if text.startswith("-") and _NUMBER.fullmatch(text) is None:
        raise Unsupported(field, "a value that begins with a dash would be read as another flag")
    return text
