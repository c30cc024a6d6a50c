"""A recorded machine that stands in for a real one: the HostView of tests."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from llmgw_core.spec import CommandResult

__all__ = ["AskedTooMuch", "TreeHost", "read_tree"]

_MOST_LINKS = 40
"""Links in one path before it counts as a loop, as in Linux."""
_MOST_QUESTIONS = 100_000


class AskedTooMuch(BaseException):
    """Raised at a question that only endless discovery reaches; no plugin's `except Exception` holds it."""


@dataclass(frozen=True)
class TreeHost:
    """A HostView over a table of files; the paths are absolute, and what is not listed is not there."""

    files: Mapping[str, str | None] = field(default_factory=dict)
    """Path → text; None is a file that is listed and cannot be read."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Path → target, relative to the link's directory or absolute."""
    hidden: frozenset[str] = frozenset()
    """Directories that are there and may not be listed."""
    commands: Mapping[tuple[str, ...], CommandResult] = field(default_factory=dict)
    hangs: bool = False
    """Every command runs into its time limit."""
    asked: list[str] = field(default_factory=list, compare=False)
    """Every path and command that was asked for, in order."""
    waited: list[float] = field(default_factory=list, compare=False)
    """The limits, in seconds, of the commands that ran into them."""

    def read_text(self, path: str) -> str | None:
        """The text of a file."""
        self._count(path)
        return self.files.get(self._resolved(path))

    def list_dir(self, path: str) -> tuple[str, ...] | None:
        """Sorted names in a directory."""
        self._count(path)
        resolved = self._resolved(path)
        return None if resolved in self.hidden else self._listing.get(resolved)

    def run(self, argv: tuple[str, ...], timeout: float) -> CommandResult | None:
        """The recorded answer of a command."""
        self._count(" ".join(argv))
        if self.hangs:
            self.waited.append(timeout)
            return CommandResult(code=-15, timed_out=True)
        return self.commands.get(argv)

    def without(self, path: str) -> TreeHost:
        """The same machine, the file not there."""
        return self._changed(files={name: text for name, text in self.files.items() if name != path})

    def with_texts(self, texts: Mapping[str, str | None]) -> TreeHost:
        """The same machine, these files with another text, or unreadable for None."""
        return self._changed(files={**self.files, **texts})

    def hiding(self, *directories: str) -> TreeHost:
        """The same machine, the directories not to be listed."""
        return self._changed(hidden=self.hidden | set(directories))

    def unreadable(self) -> TreeHost:
        """The same machine, every file there and none to be read."""
        return self._changed(files=dict.fromkeys(self.files))

    def hanging(self) -> TreeHost:
        """The same machine, every command running into its limit."""
        return self._changed(hangs=True)

    @property
    def directories(self) -> tuple[str, ...]:
        """Every directory of the recording."""
        return tuple(sorted(self._listing))

    def _changed(self, **changes: Any) -> TreeHost:
        return replace(self, asked=[], waited=[], **changes)

    def _count(self, question: str) -> None:
        self.asked.append(question)
        if len(self.asked) > _MOST_QUESTIONS:
            raise AskedTooMuch(f"more than {_MOST_QUESTIONS} questions, the last for {question}")

    @cached_property
    def _listing(self) -> Mapping[str, tuple[str, ...]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for path in (*self.files, *self.links, *self.hidden):
            directory, name = posixpath.split(path)
            while name and name not in found[directory]:
                found[directory].add(name)
                directory, name = posixpath.split(directory)
        return {directory: tuple(sorted(names)) for directory, names in found.items()}

    def _resolved(self, path: str) -> str:
        """The path without links; one that leads in circles stays what it is, which is no file."""
        at = posixpath.normpath(path)
        if not self.links:
            return at
        for _ in range(_MOST_LINKS):
            link = next((prefix for prefix in _prefixes(at) if prefix in self.links), None)
            if link is None:
                return at
            target = posixpath.join(posixpath.dirname(link), self.links[link])
            at = posixpath.normpath(target + at[len(link) :])
        return path


def read_tree(document: Mapping[str, Any] | Path) -> TreeHost:
    """A machine from a `sysfs-tree/1` document, or the YAML file of one.

    `root` is the directory that its paths are below; `files` maps a path to its text, `links` to the target
    of a symbolic link, and `errors` to the error of reading it. Raises ValueError for another format.
    """
    if isinstance(document, Path):
        import yaml

        document = yaml.safe_load(document.read_text())
    if not isinstance(document, Mapping) or document.get("format") != "sysfs-tree/1":
        raise ValueError("this is no recording: its format is not sysfs-tree/1")
    root = f"/{document.get('root', 'sys')}".rstrip("/")
    errors = dict.fromkeys(document.get("errors") or ())
    files = {**(document.get("files") or {}), **errors}
    return TreeHost(
        files={f"{root}/{path}": text for path, text in files.items()},
        links={f"{root}/{path}": target for path, target in (document.get("links") or {}).items()},
    )


def _prefixes(path: str) -> list[str]:
    """The path's directories from the outermost, and the path itself."""
    parts = path.split("/")
    return ["/".join(parts[:size]) for size in range(2, len(parts) + 1)]
