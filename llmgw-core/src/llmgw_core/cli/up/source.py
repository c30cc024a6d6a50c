"""Which catalog an `up` serves: one that was given, one made for a model file, or last time's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import click

from llmgw_core.cli.up.checks import model_file
from llmgw_core.cli.up.layout import StateLayout
from llmgw_core.spec.errors import ConfigError

ENGINE = "llamacpp"


@dataclass(frozen=True)
class CatalogSource:
    """A catalog's text and file. `engine` is set for one that was made, which is still to be written."""

    file: Path
    text: str
    engine: str | None = None


def choose_source(layout: StateLayout, model: Path | None, catalog: Path | None) -> CatalogSource:
    """Raises ConfigError when the file cannot be read, and UsageError when there is nothing to serve."""
    if model is not None and catalog is not None:
        raise click.UsageError("--model and --catalog exclude each other")
    if model is not None:
        return CatalogSource(layout.catalog, _made_for(model_file(model)), ENGINE)
    if catalog is not None:
        return _read(Path(os.path.abspath(catalog.expanduser())))
    if layout.catalog.exists():
        return _read(layout.catalog)
    raise click.UsageError("give --model FILE.gguf or --catalog FILE")


def _made_for(path: Path) -> str:
    from llmgw_core.catalog.single import catalog_for_model

    return catalog_for_model(str(path), cpus=len(os.sched_getaffinity(0)), engine=ENGINE)


def _read(path: Path) -> CatalogSource:
    try:
        return CatalogSource(path, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 text (byte {error.start})", where=str(path)) from None
