"""The llama-server at hand: which flags it takes, and how it calls what other releases call otherwise."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from llmgw_core.spec import Arity, FlagTable, Launch, argument_fault, table_for

from llmgw_llamacpp.info import ENGINE
from llmgw_llamacpp.tables import LAUNCHER, TABLES, is_launcher

__all__ = ["Release"]

_LOAD_MODES: Mapping[str, str] = {"--mlock": "mlock", "--mmap": "mmap", "--no-mmap": "none"}
"""Switches that became values of --load-mode: it is there since build 10248, they are gone in 10991."""


@dataclass(frozen=True)
class Release:
    """One release of llama-server, or the embedded launcher. `table` is the one that fits it best."""

    version: str
    tables: Collection[FlagTable]
    table: FlagTable

    @classmethod
    def of(cls, launch: Launch) -> Release:
        """The release that a shard is started with."""
        if is_launcher(launch):
            own = LAUNCHER.model_copy(update={"version": launch.version})
            return cls(launch.version, (own,), own)
        found = table_for(TABLES, ENGINE, launch.version)
        return cls(launch.version, TABLES, found.table if found else LAUNCHER)

    def fault(self, items: Sequence[str]) -> str | None:
        """Why this release does not take a flag with its values; None when it does or nobody knows."""
        return argument_fault(self.tables, ENGINE, self.version, items) if items else None

    def first(self, *names: str) -> str:
        """The first of these names that the release has; the first of all when it has none."""
        return next((name for name in names if name in self.table.by_name), names[0])

    def spelled(self, name: str, items: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """An operator's flag, by name and argv items, as this release calls it."""
        if len(items) == 1 and items[0] in _LOAD_MODES and self._lacks(items[0]):
            return "load-mode", ("--load-mode", _LOAD_MODES[items[0]])
        if items[0] == "--load-mode" and self._lacks("--load-mode"):
            switch = next((one for one, mode in _LOAD_MODES.items() if items[1:] == (mode,)), None)
            return (switch.lstrip("-"), (switch,)) if switch else (name, items)
        return (name, self._flash_attention(items)) if name == "flash-attn" else (name, items)

    def _lacks(self, name: str) -> bool:
        return name not in self.table.by_name

    def _flash_attention(self, items: tuple[str, ...]) -> tuple[str, ...]:
        flag = self.table.by_name.get("--flash-attn")
        if flag is None or flag.arity is not Arity.NONE or items[1:] not in {("on",), ("off",)}:
            return items
        # A switch, off where it is not given; a value would be read as another argument.
        return items[:1] if items[1] == "on" else ()
