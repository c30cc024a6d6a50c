"""A YAML document as a tree that remembers where everything was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llmgw_core.catalog.fault import Path
from llmgw_core.catalog.scalar import Scalar


@dataclass(frozen=True)
class Mark:
    """A place in the file; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Leaf:
    """A scalar."""

    mark: Mark
    value: Scalar
    size: int = 1

    def plain(self) -> Any:
        """The value itself."""
        return self.value


@dataclass(frozen=True)
class Sequence:
    """A list; `size` counts every node below it, aliases expanded."""

    mark: Mark
    items: tuple[Node, ...]
    size: int

    def plain(self) -> Any:
        """The value as lists, dictionaries and scalars."""
        return [item.plain() for item in self.items]


@dataclass(frozen=True)
class Table:
    """A mapping with text keys; `keys` says where each key was written."""

    mark: Mark
    items: Mapping[str, Node]
    size: int
    keys: Mapping[str, Mark] = field(default_factory=dict)

    def plain(self) -> Any:
        """The value as lists, dictionaries and scalars."""
        return {key: item.plain() for key, item in self.items.items()}


Node = Leaf | Sequence | Table


def _step(node: Node, step: str | int) -> Node | None:
    if isinstance(node, Table):
        return node.items.get(str(step))
    if isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
        return node.items[step]
    return None


def mark_of(root: Node, path: Path, *, at_key: bool = False) -> Mark:
    """Where `path` was written; where it was not written, the nearest thing around it."""
    node, key = root, root.mark
    for step in path:
        below = _step(node, step)
        if below is None:
            break
        key = node.keys.get(str(step), below.mark) if isinstance(node, Table) else below.mark
        node = below
    return key if at_key or isinstance(node, Table | Sequence) else node.mark
