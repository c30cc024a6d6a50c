"""What a plain YAML scalar means: the core schema of YAML 1.2, less its odd numbers.

YAML 1.1, which PyYAML follows, turns `no` into false, `1:30` into 90 and `010` into 8; a catalog is full
of names and versions to which that must not happen.
"""

from __future__ import annotations

import re

Scalar = str | int | float | bool | None

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
# Plain decimal numbers only: `007`, `1e5` and a telephone number stay the text that they are.
_INT = re.compile(r"0|-?[1-9][0-9]{0,17}")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,18}")


def plain_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
