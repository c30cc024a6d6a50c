"""Durations and sizes as people write them in configuration files."""

from __future__ import annotations

import re

__all__ = ["format_duration", "parse_duration", "parse_size_mib"]

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MIB = {
    "KiB": 1 / 1024,
    "MiB": 1.0,
    "GiB": 1024.0,
    "TiB": 1024.0 * 1024.0,
    "KB": 1e3 / 2**20,
    "MB": 1e6 / 2**20,
    "GB": 1e9 / 2**20,
    "TB": 1e12 / 2**20,
}
_PIECE = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B)")


def parse_duration(text: str) -> float:
    """Seconds of a duration such as `30s`, `1h30m` or `250ms`.

    Raises ValueError, with the forms that are understood, for anything else.
    """
    pieces = _PIECE.findall(text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text.strip():
        raise ValueError(f"{text!r} is not a duration; write for instance 30s, 10m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in pieces)


def parse_size_mib(text: str) -> int:
    """MiB of a size such as `8GiB` or `500MB`, rounded up.

    Raises ValueError, with the units that are understood, for anything else.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size; write a number and one of {', '.join(_MIB)}, like 8GiB")
    return -int(-(float(found[1]) * _MIB[found[2]]) // 1)


def format_duration(seconds: float) -> str:
    """A duration for a person: `0.9 s`, `38 s`, `3m10s`, `2h05m`, `3d`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for unit, small, size in (("d", "h", 86400), ("h", "m", 3600), ("m", "s", 60)):
        if whole >= size:
            rest = whole % size // {"h": 3600, "m": 60, "s": 1}[small]
            return f"{whole // size}{unit}{rest:02d}{small}" if rest else f"{whole // size}{unit}"
    return f"{whole} s"
