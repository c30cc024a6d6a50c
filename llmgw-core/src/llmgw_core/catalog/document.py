"""YAML text → a tree with marks, within limits on size, depth and expansion.

Reads the parser's events instead of its objects: that gives the place of everything, sees duplicate
keys, never builds a Python object from a tag, and bounds recursion and aliases as they come.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from llmgw_core.catalog.nodes import Leaf, Mark, Node, Sequence, Table
from llmgw_core.catalog.scalar import plain_scalar

MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 32
MAX_NODES = 200_000
"""Values in a document, counted with every alias expanded."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_START = Mark(1, 1)


@dataclass(frozen=True)
class Defect:
    """What is wrong with the document itself, and where."""

    mark: Mark
    message: str
    fix: str = ""


class _Broken(Exception):
    """Reading cannot go on after `defect`."""

    def __init__(self, defect: Defect) -> None:
        super().__init__(defect.message)
        self.defect = defect


def read_document(source: str | bytes) -> tuple[Node | None, tuple[Defect, ...]]:
    """The tree of a document, and what is wrong with it; no tree where reading could not go on."""
    reader = _Reader()
    try:
        return reader.read(_checked(source)), tuple(reader.defects)
    except _Broken as broken:
        return None, (*reader.defects, broken.defect)


def _checked(source: str | bytes) -> str:
    size = len(source if isinstance(source, bytes) else source.encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        message = f"the file has {size} bytes; the limit is {MAX_BYTES}"
        raise _Broken(Defect(_START, message, "split the catalog over several control planes"))
    text = source if isinstance(source, str) else _decoded(source)
    bad = _UNPRINTABLE.search(text)
    if bad:
        message = f"the character U+{ord(bad[0]):04X} may not stand in YAML"
        raise _Broken(Defect(_mark_at(text, bad.start()), message, "remove it"))
    return text


def _decoded(source: bytes) -> str:
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = source[: error.start].decode("utf-8", "replace")
        message = f"not UTF-8: byte 0x{source[error.start]:02x}"
        raise _Broken(Defect(_mark_at(before, len(before)), message, "save the file as UTF-8")) from None


def _mark_at(text: str, index: int) -> Mark:
    return Mark(text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))


def _mark(mark: Any) -> Mark:
    return Mark(mark.line + 1, mark.column + 1) if mark is not None else _START


def _is_tab(text: str, mark: Mark) -> bool:
    lines = text.splitlines()[mark.line - 1 : mark.line]
    return bool(lines) and lines[0][mark.column - 1 : mark.column] == "\t"


def _open_bracket(error: yaml.MarkedYAMLError) -> str:
    """Where the list or mapping begins that is not closed: it is missed only at the next line or later."""
    if error.context_mark is None or not (error.context or "").startswith("while parsing a flow"):
        return ""
    begun = _mark(error.context_mark)
    return f"look at the bracket opened in line {begun.line}, column {begun.column}: is it closed?"


def _events(text: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        words = ", ".join(part for part in (error.context, error.problem) if part)
        mark = _mark(error.problem_mark or error.context_mark)
        fix = "indent with spaces, not with a tab" if _is_tab(text, mark) else _open_bracket(error)
        raise _Broken(Defect(mark, words, fix)) from None
    except yaml.YAMLError as error:
        raise _Broken(Defect(_START, f"not YAML: {error}")) from None


@dataclass
class _Reader:
    defects: list[Defect] = field(default_factory=list)
    anchors: dict[str, Node | None] = field(default_factory=dict)
    nodes: int = 0

    def read(self, text: str) -> Node | None:
        events = _events(text)
        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    message = "a second document begins here"
                    raise _Broken(Defect(_mark(event.start_mark), message, "keep one document in a file"))
                root = self._node(next(events), events, 0)
        return root

    def _node(self, event: Any, events: Iterator[yaml.Event], depth: int) -> Node:
        mark = _mark(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor, mark)
        if depth > MAX_DEPTH:
            raise _Broken(Defect(mark, f"nested deeper than {MAX_DEPTH} levels", "a catalog needs no more"))
        if event.tag is not None:
            self._defect(mark, f"the tag {event.tag} is not allowed", "write the value without a tag")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        node = self._content(event, mark, events, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _content(self, event: Any, mark: Mark, events: Iterator[yaml.Event], depth: int) -> Node:
        self._count(1, mark)
        if isinstance(event, yaml.ScalarEvent):
            return Leaf(mark, plain_scalar(event.value) if event.implicit[0] else event.value)
        if isinstance(event, yaml.SequenceStartEvent):
            items = tuple(self._items(events, depth))
            return Sequence(mark, items, 1 + sum(item.size for item in items))
        return self._table(mark, events, depth)

    def _items(self, events: Iterator[yaml.Event], depth: int) -> Iterator[Node]:
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                return
            yield self._node(event, events, depth + 1)

    def _table(self, mark: Mark, events: Iterator[yaml.Event], depth: int) -> Table:
        items: dict[str, Node] = {}
        keys: dict[str, Mark] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            at = _mark(event.start_mark)
            key = self._key(event, events, at, depth)
            value = self._node(next(events), events, depth + 1)
            if key in keys:
                message = f"the key {key!r} is given twice: first on line {keys[key].line}"
                self._defect(at, message, "keep one of them")
            elif key is not None:
                items[key], keys[key] = value, at
        return Table(mark, items, 1 + sum(item.size for item in items.values()), keys)

    def _key(self, event: Any, events: Iterator[yaml.Event], at: Mark, depth: int) -> str | None:
        if not isinstance(event, yaml.ScalarEvent):
            self._node(event, events, depth + 1)
            self._defect(at, "a key has to be text", "write a plain name before the colon")
            return None
        if event.value == "<<" and event.implicit[0]:
            self._defect(at, "merge keys (<<) are not read", "put what profiles share under defaults")
            return None
        return str(event.value)

    def _alias(self, name: str | None, mark: Mark) -> Node:
        node = self.anchors.get(name or "")
        if node is None:
            why = "is used inside itself" if name in self.anchors else "is not defined above"
            raise _Broken(Defect(mark, f"the anchor &{name} {why}", "write the value out"))
        self._count(node.size, mark)
        return node

    def _count(self, size: int, mark: Mark) -> None:
        self.nodes += size
        if self.nodes > MAX_NODES:
            message = f"more than {MAX_NODES} values, counted with every alias expanded"
            raise _Broken(Defect(mark, message, "write what the aliases stand for, or less of it"))

    def _defect(self, mark: Mark, message: str, fix: str) -> None:
        self.defects.append(Defect(mark, message, fix))
