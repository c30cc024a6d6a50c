"""The flags of one release of an engine's program, and which of them a word on a command line means.

Engines rename and drop flags between releases; a table says, without running anything, what one release
takes. Tables come from the program's own help (`spec.help_text`) or from its sources (`spec.flag_tables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from llmgw_core.spec.value import Value

__all__ = ["Absent", "Arity", "Flag", "FlagTable", "Grammar", "resolve"]


class Arity(StrEnum):
    """How many values follow a flag. UNKNOWN where only the name is known."""

    UNKNOWN = "unknown"
    NONE = "none"
    ONE = "one"
    TWO = "two"
    OPTIONAL = "optional"
    """None or one."""
    MANY = "many"
    """One or more."""
    ANY = "any"
    """None or more."""


class Flag(Value):
    """One flag. `names` has every spelling: long, short and the `--no-` form.

    `choices` are all values that it takes; empty where it takes others too. `env` is the variable that
    sets it, `default` what holds without it; both empty where the help does not say.
    """

    names: tuple[str, ...]
    arity: Arity = Arity.UNKNOWN
    metavar: str = ""
    choices: tuple[str, ...] = ()
    env: str = ""
    default: str = ""
    repeatable: bool = False


class Absent(Value):
    """A flag of other releases that this one refuses.

    `first` and `last` are the releases that have it; empty where that is not known, or for `last` where
    the newest has it. `instead` are flags that do its work in this release.
    """

    name: str
    first: str = ""
    last: str = ""
    instead: tuple[str, ...] = ()


class Grammar(Value):
    """What a program takes for a flag besides its exact names. Where it is not known, everything."""

    prefixes: bool = True
    """The beginning of a long name, as long as it is unique (argparse)."""
    equals: bool = True
    """`--flag=value`."""
    underscores: bool = True
    """`--flag_name` for `--flag-name`."""
    dotted: bool = False
    """`--flag.key value` for one key of a JSON value (vLLM)."""
    greedy: bool = False
    """The item after a flag is its value even when it begins with a dash (llama.cpp)."""


class FlagTable(Value):
    """What one release of a program takes, and how that is known.

    `program` is how its command begins after the path, such as `ray start`; empty for the engine itself.
    A table that is not `complete` says nothing about flags that it does not list, and why.
    """

    engine: str
    version: str
    program: str = ""
    source: Literal["captured help", "parsed sources"]
    captured_from: str = ""
    complete: bool = True
    incomplete_because: str = ""
    grammar: Grammar = Grammar()
    flags: tuple[Flag, ...]
    absent: tuple[Absent, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Flag]:
        """The flag of every spelling."""
        return MappingProxyType({name: flag for flag in self.flags for name in flag.names})

    @cached_property
    def absent_by_name(self) -> Mapping[str, Absent]:
        """What is known of a flag that this release does not have."""
        return MappingProxyType({one.name: one for one in self.absent})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> FlagTable:
        """A copy with other values in some fields."""
        copied = super().model_copy(update=update, deep=deep)
        for cached in ("by_name", "absent_by_name"):  # pydantic copies what was made of the old fields
            copied.__dict__.pop(cached, None)
        return copied


def resolve(table: FlagTable, word: str) -> tuple[Flag, ...]:
    """The flags that the engine could take `word` (with its dashes, perhaps with `=value`) for.

    None is an unknown flag; more than one an abbreviation that the engine would call ambiguous.
    """
    name = word.partition("=")[0] if table.grammar.equals else word
    for spelling in _written(table.grammar, name):
        if spelling in table.by_name:
            return (table.by_name[spelling],)
    if not table.grammar.prefixes or not name.startswith("--"):
        return ()
    begun = tuple(_written(table.grammar, name))
    return tuple(flag for flag in table.flags if any(one.startswith(begun) for one in flag.names))


def _written(grammar: Grammar, name: str) -> Iterable[str]:
    yield name
    if grammar.underscores and name.startswith("--"):
        yield name.replace("_", "-")
    if grammar.dotted and "." in name:
        yield name.partition(".")[0].replace("_", "-")
