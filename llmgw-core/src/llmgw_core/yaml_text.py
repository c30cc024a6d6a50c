"""YAML of an operator: safe types only, no key twice, and where each value stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from llmgw_core.spec.errors import ConfigError

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class YamlText:
    """A parsed document; `places` has line and column, counted from 1, of each key and list item."""

    value: object
    places: Mapping[KeyPath, tuple[int, int]]

    def place(self, path: KeyPath) -> tuple[int, int] | None:
        """Where `path` stands, or the nearest part of the document around it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path)


def parse_yaml(text: str, *, file: str) -> YamlText:
    """Read one document. Raises ConfigError with file, line and column when it is not fit to be read."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        places = dict(_places(node, file, (), set())) if node is not None else {}
        value = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, file) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}", where=file) from None
    finally:
        loader.dispose()
    return YamlText(value, places)


def _places(
    node: yaml.Node, file: str, path: KeyPath, seen: set[int]
) -> Iterator[tuple[KeyPath, tuple[int, int]]]:
    # An anchor is walked where it is written and not where it is used: a document of anchors of anchors
    # would otherwise grow without bound, and one that holds itself would never end.
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        _refuse_twice(node, file)
        children = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        children = [(index, item, item) for index, item in enumerate(node.value)]
    else:
        return
    for name, at, value in children:
        if isinstance(name, str | int):
            yield (*path, name), (at.start_mark.line + 1, at.start_mark.column + 1)
            yield from _places(value, file, (*path, name), seen)


def _refuse_twice(node: yaml.MappingNode, file: str) -> None:
    first: dict[object, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if isinstance(key, yaml.ScalarNode) and key.value in first:
            raise ConfigError(
                f"{key.value!r} is written twice, first in line {first[key.value]}",
                where=f"{file}:{line}:{key.start_mark.column + 1}",
                fix="keep one of them",
            )
        if isinstance(key, yaml.ScalarNode):
            first[key.value] = line


def _not_yaml(error: yaml.MarkedYAMLError, file: str) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
    begun = error.context_mark if (error.context or "").startswith("while parsing a flow") else None
    fix = (
        f"look at the bracket opened in line {begun.line + 1}, column {begun.column + 1}: is it closed?"
        if begun
        else None
    )
    return ConfigError(f"not YAML: {error.problem or error.context}", where=where, fix=fix)
