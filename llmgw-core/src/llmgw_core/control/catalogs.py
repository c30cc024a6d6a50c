"""Which catalog is true: the newest revision in the store; a file is applied when its text is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio.to_thread

from llmgw_core.catalog.dry_run import Commands
from llmgw_core.catalog.load import LoadedCatalog, load_catalog
from llmgw_core.catalog.model import Catalog
from llmgw_core.control.events import EventLog
from llmgw_core.ports import CatalogRow, Rand, Store
from llmgw_core.spec import ConfigError, EngineInfo

FILE_ORIGIN = "file"
STORE_NAME = "stored catalog"


class CatalogSource(Protocol):
    """Where the operator keeps the catalog."""

    @property
    def name(self) -> str:
        """What errors call it."""

    async def read(self) -> bytes:
        """Its content. Raises ConfigError when it cannot be read."""


@dataclass(frozen=True)
class CatalogFile:
    """A catalog file on this machine."""

    path: Path

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    async def read(self) -> bytes:
        """The content of the file."""
        try:
            return await anyio.to_thread.run_sync(self.path.read_bytes)
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror or error}", where=self.name) from None


@dataclass(frozen=True)
class CatalogInUse:
    """The catalog that the control plane works by, and every revision that its store knows."""

    catalog: Catalog
    revisions: frozenset[str]


class CatalogKeeper:
    """Loads, stores and re-reads the catalog; a bad one changes nothing."""

    def __init__(
        self,
        store: Store,
        engines: Mapping[str, EngineInfo],
        *,
        commands: Commands | None,
        source: CatalogSource | None,
        rand: Rand,
        events: EventLog,
    ) -> None:
        self._store, self._engines, self._commands = store, engines, commands
        self._source, self._rand, self._events = source, rand, events

    async def start(self) -> CatalogInUse:
        """The catalog to begin with.

        A broken file is an event as long as the store has a good catalog; without one it raises
        CatalogError, or ConfigError when the file cannot be read.
        """
        stored = await self._store.latest_catalog()
        try:
            return await self.reload()
        except ConfigError as error:
            if stored is None:
                raise
            self._events.add("catalog_refused", "start", f"the last good one stays: {error}")
            return await self._use(stored, self._load(stored.text, STORE_NAME, stored.revision))

    async def reload(self) -> CatalogInUse:
        """Re-read the file. Raises CatalogError or ConfigError, and then nothing has changed."""
        stored = await self._store.latest_catalog()
        if self._source is None:
            if stored is None:
                return CatalogInUse(Catalog(), await self._store.catalog_revisions())
            return await self._use(stored, self._load(stored.text, STORE_NAME, stored.revision))
        content = await self._source.read()
        loaded = self._load(content, self._source.name, "")
        text = content.decode()  # it was loaded, so it is UTF-8
        if stored is None or stored.text != text:
            stored = await self._store.save_catalog(text, FILE_ORIGIN, self._rand.token()[:8])
            self._events.add("catalog_applied", stored.revision, f"from {self._source.name}")
            for warning in loaded.warnings:
                self._events.add("catalog_warning", stored.revision, str(warning))
        return await self._use(stored, self._load(text, self._source.name, stored.revision))

    def _load(self, text: str | bytes, file: str, revision: str) -> LoadedCatalog:
        return load_catalog(
            text, file=file, engines=self._engines, revision=revision, commands=self._commands
        )

    async def _use(self, row: CatalogRow, loaded: LoadedCatalog) -> CatalogInUse:
        return CatalogInUse(loaded.catalog, await self._store.catalog_revisions())
