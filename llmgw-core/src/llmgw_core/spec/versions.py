"""Ranges of engine versions, such as `>=0.10,<0.12`."""

from __future__ import annotations

import re

from llmgw_core.spec.engine import EngineInfo, version_key
from llmgw_core.spec.value import Value

__all__ = ["VersionRange", "parse_version_range"]

_CLAUSE = re.compile(r"(>=|<=|==|!=|~=|>|<)\s*([A-Za-z0-9][A-Za-z0-9._+-]*)")


class VersionRange(Value):
    """Clauses (operator, version) that all have to hold; none holds for every version."""

    clauses: tuple[tuple[str, str], ...] = ()

    def contains(self, info: EngineInfo, version: str) -> bool:
        """Whether `version` of this engine lies in the range, compared by its plugin's version pieces."""
        have = version_key(info, version)
        return all(_holds(have, operator, version_key(info, bound)) for operator, bound in self.clauses)


def parse_version_range(text: str) -> VersionRange:
    """The range in `text`: clauses separated by commas; empty for all versions.

    Raises ValueError, with the operators that are understood, for anything else.
    """
    clauses = [_CLAUSE.fullmatch(piece.strip()) for piece in text.split(",")] if text.strip() else []
    found = [(clause[1], clause[2]) for clause in clauses if clause and any(map(str.isdigit, clause[2]))]
    if len(found) != len(clauses):
        message = f"{text!r} is not a version range; write for instance >=0.10,<0.12 (also ==, !=, ~=, >, <=)"
        raise ValueError(message)
    return VersionRange(clauses=tuple(found))


def _holds(have: tuple[int, ...], operator: str, bound: tuple[int, ...]) -> bool:
    width = max(len(have), len(bound))
    left, right = (key + (0,) * (width - len(key)) for key in (have, bound))
    holds = {
        ">=": left >= right,
        "<=": left <= right,
        "==": left == right,
        "!=": left != right,
        ">": left > right,
        "<": left < right,
        # Compatible: at least that, and the same but for the last piece.
        "~=": left >= right and have[: len(bound) - 1] == bound[:-1],
    }
    return holds[operator]
