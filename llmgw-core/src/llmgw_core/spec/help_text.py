"""Reads the help of a program as a table of its flags.

One reader for every style in use, because they agree in what matters: an entry begins with its names at the
entries' own indent, its text follows after two spaces or on deeper lines. Tried with argparse (vLLM,
SGLang), click (Ray) and llama.cpp's two columns. It never raises: what it cannot read is not in the table,
and the table says why it may not be whole.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from llmgw_core.spec.flags import Absent, Arity, Flag, FlagTable, Grammar
from llmgw_core.spec.help_shape import listed_choices, names_and_values, shape_of
from llmgw_core.spec.help_whole import why_not_whole

__all__ = ["MAX_HELP_CHARS", "help_program", "parse_help"]

MAX_HELP_CHARS = 2_000_000
"""Longer help is cut; the longest one seen, SGLang's, has 180,000."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|.\x08")
_HEAD = re.compile(r"( {0,8})(--?[A-Za-z].*)")
_PROGRAM = re.compile(
    r"(?m)^(?:usage|Usage|USAGE): +((?:[\w./-]+ ?)+?)(?= *(?:[\[<({]|--?[A-Za-z]|[A-Z_]{2,}\b|$))"
)
_ENVIRONMENT = re.compile(r"[\[(]env(?: var)?: *([A-Za-z_][A-Za-z0-9_]*)")
# Only a default that is one word is a fact; a sentence about it is the program's prose.
_DEFAULT = re.compile(r"[\[(]default: ([^\s(),\[\]]{1,40})[,)\]]")
_REPEATABLE = re.compile(r"(?:multiple|several) (?:times|--[\w-]+ arguments)|\brepeatable\b")
_REMOVED = re.compile(r"the argument has been removed")
# Not `--spec-ngram-*-size-n`, which stands for several.
_MENTIONED = re.compile(r"(?<![\w-])--[a-zA-Z][\w-]*\w(?![\w*{-])")


class Entry(NamedTuple):
    """One flag as the help shows it: names and values, and the lines of its text."""

    head: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The text on one line."""
        return " ".join(" ".join(self.lines).split())


def parse_help(
    text: str, *, engine: str, version: str, program: str = "", captured_from: str = ""
) -> FlagTable:
    """The flags that a help text lists. Not `complete`, with the reason, where the text looks cut."""
    plain = _plain(text[:MAX_HELP_CHARS])
    lines = plain.split("\n")
    indent = _entry_indent(lines)
    entries = tuple(_entries(lines, indent))
    removed = [entry for entry in entries if _REMOVED.search(entry.text)]
    flags = tuple(flag for entry in entries if entry not in removed and (flag := _flag(entry, indent)))
    doubts = why_not_whole(plain, flags, entries[-1] if entries else None)
    if len(text) > MAX_HELP_CHARS:
        doubts = (f"only the first {MAX_HELP_CHARS} characters were read", *doubts)
    return FlagTable(
        engine=engine,
        version=version,
        program=program,
        source="captured help",
        captured_from=captured_from,
        complete=not doubts,
        incomplete_because="; ".join(doubts),
        grammar=_grammar(plain, indent),
        flags=flags,
        absent=tuple(absent for entry in removed for absent in _absent(entry)),
    )


def help_program(text: str) -> str:
    """How the command that printed this help begins, such as `ray start`; empty where it does not say."""
    found = _PROGRAM.search(text[:MAX_HELP_CHARS])
    return found[1].strip() if found else ""


def _plain(text: str) -> str:
    return _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n").expandtabs()


def _entry_indent(lines: list[str]) -> int:
    """The indent of most lines that begin with a flag: prose may have a flag at a line's beginning too."""
    found = Counter(len(head[1]) for line in lines if (head := _HEAD.fullmatch(line)))
    return max(found, key=lambda indent: (found[indent], indent)) if found else 0


def _entries(lines: list[str], indent: int) -> Iterator[Entry]:
    head, below = "", list[str]()
    for line in lines:
        found = _HEAD.fullmatch(line)
        if found and (len(found[1]) == indent or 0 < len(found[1]) < indent):
            if head:
                yield Entry(head, tuple(below))
            head, *below = _columns(found[2])
        elif line.strip() and len(line) - len(line.lstrip()) <= indent:
            if head:
                yield Entry(head, tuple(below))
            head, below = "", []  # the title of a section, or prose
        elif line.strip():
            below.append(line.strip())
    if head:
        yield Entry(head, tuple(below))


def _columns(line: str) -> list[str]:
    """Names and values, and the beginning of the text where it is on the same line."""
    # llama.cpp aligns a long name behind its short one: `-h,    --help`.
    aligned = re.sub(r",\s+(?=-)", ", ", line)
    return re.split(r"\s{2,}", aligned.strip(), maxsplit=1)


def _flag(entry: Entry, indent: int) -> Flag | None:
    names, values = names_and_values(entry.head)
    if not names:
        return None
    shape = shape_of(values)
    environment, found = _ENVIRONMENT.search(entry.text), _DEFAULT.search(entry.text)
    default = found[1] if found else ""
    # llama.cpp lists what a flag takes in its text; in other styles such lists are prose.
    listed = () if indent or shape.arity is not Arity.ONE else listed_choices(entry.lines, shape, default)
    return Flag(
        names=names,
        arity=shape.arity,
        metavar=shape.metavar,
        choices=shape.choices or listed,
        env=environment[1] if environment else "",
        default=default,
        repeatable=_REPEATABLE.search(entry.text) is not None,
    )


def _absent(entry: Entry) -> Iterator[Absent]:
    """A flag that the program still lists, only to refuse it."""
    names, _ = names_and_values(entry.head)
    instead = tuple(dict.fromkeys(name for name in _MENTIONED.findall(entry.text) if name not in names))
    return (Absent(name=name, instead=instead) for name in names)


def _grammar(text: str, indent: int) -> Grammar:
    if re.search(r"(?m)^(?:options|optional arguments):", text):  # argparse
        json_keys = "--json-arg.key" in text
        return Grammar(underscores=json_keys, dotted=json_keys)
    if re.search(r"(?m)^Options:", text):  # click
        return Grammar(prefixes=False, underscores=False)
    if indent == 0 and re.search(r"(?m)^-{3,} .* -{3,}$", text):  # llama.cpp
        return Grammar(prefixes=False, equals=False, greedy=True)
    return Grammar()
