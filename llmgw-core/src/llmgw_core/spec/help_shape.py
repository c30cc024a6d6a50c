"""What the head of a help entry says: the names of a flag and how many values of which kind it takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from llmgw_core.spec.flags import Arity

__all__ = ["Shape", "listed_choices", "names_and_values", "shape_of"]

_ALLOWED = re.compile(r"allowed values: ([\w.+-]+(?:,\s*[\w.+-]+)*)")
_BULLET = re.compile(r"- ([\w.+-]+):.*")
_NAME = re.compile(r"(--?[A-Za-z](?:[\w.+-]*[\w+])?)(\[?=)?(.*)", re.DOTALL)
_SPLIT = re.compile(r", | / (?=-)")
# A description in angle brackets is one value, however many words it has.
_DESCRIPTION = re.compile(r"<[^<>]*>")
_ONE_OR_MORE = re.compile(r"(\S+) \[\1 \.\.\.\]")
_BRACKETED = re.compile(r"\[([^\[\]]*)\]")
# What vLLM knows by itself; more can be registered with it.
_OPEN_LIST = re.compile(r"\['|\{[^{}]*\} or ")
_SET = re.compile(r"\{([^{}]*)\}")


class Shape(NamedTuple):
    """The values of a flag."""

    arity: Arity
    metavar: str = ""
    choices: tuple[str, ...] = ()


def names_and_values(head: str) -> tuple[tuple[str, ...], str]:
    """Every spelling in the head of an entry, and what it shows of the values."""
    names, values = list[str](), ""
    for piece in _SPLIT.split(head):
        found = _NAME.fullmatch(piece) if piece.startswith("-") else None
        if found is None:
            values = f"{values}, {piece}"  # a comma inside of the values
            continue
        names.append(found[1])
        # argparse repeats the values behind every name: the last ones are as good as the first.
        values = f"{found[2] or ''}{found[3]}".strip() or values
    return tuple(dict.fromkeys(names)), values


def shape_of(values: str) -> Shape:
    """How many values, and which, are meant by `VALUE`, `[X ...]`, `{a,b}`, `<0|1>` and the like."""
    text = _DESCRIPTION.sub(lambda found: found[0].replace(" ", "-"), values)
    if text.startswith("[=") and text.endswith("]"):
        return Shape(Arity.OPTIONAL, text[2:-1])
    text = text.removeprefix("=")
    if not text:
        return Shape(Arity.NONE)
    if _OPEN_LIST.match(text):
        return Shape(Arity.ONE, "VALUE")
    if more := _ONE_OR_MORE.fullmatch(text):
        return Shape(Arity.MANY, *_metavar_and_choices(more[1]))
    if bracketed := _BRACKETED.fullmatch(text):
        return _bracketed(bracketed[1])
    words = len(text.split())
    arity = {1: Arity.ONE, 2: Arity.TWO}.get(words, Arity.UNKNOWN)
    return Shape(arity, *_metavar_and_choices(text))


def listed_choices(lines: Sequence[str], shape: Shape, default: str) -> tuple[str, ...]:
    """The choices that the text of a flag lists, in llama.cpp's two ways; empty where there are none."""
    if allowed := _ALLOWED.search("\n".join(lines)):
        return tuple(re.split(r",\s*", allowed[1]))
    words = [bullet[1] for line in lines if (bullet := _BULLET.fullmatch(line))]
    if len(words) < 2 or shape.metavar == "N":
        return ()  # of numbers only some are explained
    return tuple(dict.fromkeys((*words, *filter(None, (default,)))))


def _bracketed(inner: str) -> Shape:
    if inner.endswith(" ..."):
        return Shape(Arity.ANY, *_metavar_and_choices(inner.removesuffix(" ...")))
    if "|" in inner:
        return Shape(Arity.ONE, "", tuple(inner.split("|")))  # click's and llama.cpp's choices
    return Shape(Arity.OPTIONAL, *_metavar_and_choices(inner))


def _metavar_and_choices(text: str) -> tuple[str, tuple[str, ...]]:
    if found := _SET.fullmatch(text):
        return "", tuple(found[1].split(","))
    if text.startswith("<") and text.endswith(">") and "|" in text:
        return "", tuple(text[1:-1].split("|"))
    return text, ()
