"""Whether a help text is all of it: a flag may be called missing only where nothing was cut off."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from llmgw_core.spec.flags import Flag

__all__ = ["why_not_whole"]

_USAGE = re.compile(r"(?ims)^usage:.*?(?=\n[ ]*\n|\n\S|\Z)")
_LONG_NAME = re.compile(r"(?<![\w-])--[a-zA-Z][\w-]*")
_MARK = re.compile(r"(?im)^\W*(?:(?:output |text )?truncated\b.*|-- ?more ?--.*|\.\.\.|…)\W*$")
_OVERVIEW = re.compile(r"--help=(?:all|full)\b|--help-all\b|--full-help\b")
_FEW = 40
"""An overview that names a longer help shows fewer flags than this; vLLM's shows a dozen of 300."""
_SHOWN = 3


class _Entry(Protocol):
    @property
    def lines(self) -> tuple[str, ...]: ...


def why_not_whole(text: str, flags: Sequence[Flag], last: _Entry | None) -> tuple[str, ...]:
    """Every sign that something of the help is missing; empty when it looks whole."""
    return tuple(_signs(text, flags, last))


def _signs(text: str, flags: Sequence[Flag], last: _Entry | None) -> Iterator[str]:
    if not flags:
        yield "it describes no flag"
        return
    names = {name for flag in flags for name in flag.names}
    if not names & {"--help", "-h"}:
        yield "it does not list --help"
    if undescribed := _undescribed(text, names):
        more = f" and {len(undescribed) - _SHOWN} more" if len(undescribed) > _SHOWN else ""
        yield f"its usage names flags that it does not describe: {', '.join(undescribed[:_SHOWN])}{more}"
    if not text.endswith("\n"):
        yield "its last line does not end"
    if last is not None and _is_open(" ".join(last.lines)):
        yield "its last entry ends inside of a parenthesis"
    if mark := _MARK.search(text):
        yield f"it has a line {mark[0].strip()[:40]!r}"
    if len(flags) < _FEW and _OVERVIEW.search(text):
        yield "it is an overview that names a longer help"


def _undescribed(text: str, names: set[str]) -> list[str]:
    usage = _USAGE.search(text)
    named = dict.fromkeys(_LONG_NAME.findall(usage[0])) if usage else {}
    return [name for name in named if name not in names]


def _is_open(text: str) -> bool:
    return any(text.count(opened) > text.count(closed) for opened, closed in ("()", "[]"))
