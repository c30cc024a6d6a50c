"""Which commands there are, found without importing any of them.

Nothing heavy may be imported here or in `cli.main`: `llmgw --help` answers in under 150 ms. That is also
why entry points are read from the metadata files and not through `importlib.metadata`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class CommandEntry(NamedTuple):
    """Where a command lives and what it does, in one line."""

    module: str
    attribute: str
    help: str


BUILT_IN: Mapping[str, CommandEntry] = {
    "up": CommandEntry("llmgw_core.cli.up.command", "up", "Start everything on this machine."),
    "server": CommandEntry("llmgw_core.cli.server", "server", "The control plane, in the foreground."),
    "gateway": CommandEntry("llmgw_core.cli.gateway", "gateway", "A gateway, in the foreground."),
    "ctl": CommandEntry("llmgw_core.cli.ctl.group", "ctl", "Ask and steer a control plane."),
    "catalog": CommandEntry("llmgw_core.cli.catalog", "catalog", "Check a catalog of models."),
    "engine-check": CommandEntry(
        "llmgw_core.cli.engine_check", "engine_check", "Check a plugin's flags against its engine's help."
    ),
    "db": CommandEntry("llmgw_core.cli.db", "db", "Make, migrate and check the database."),
    "plugins": CommandEntry("llmgw_core.cli.plugins", "plugins", "Installed plugins and their health."),
    "version": CommandEntry("llmgw_core.cli.version", "version", "Versions of every llmgw package."),
}

FIRST_PARTY_HELP: Mapping[str, str] = {"agent": "The node daemon, and what it sees of this machine."}

GROUP = "llmgw.commands"


def installed_commands(path: list[str] | None = None) -> dict[str, CommandEntry]:
    """Commands that other distributions bring, by the entry-point group `llmgw.commands`.

    The first on `path` (sys.path when None) wins, as it does for imports; a built-in command is never
    replaced.
    """
    found: dict[str, CommandEntry] = {}
    for directory in sys.path if path is None else path:
        for distribution, file in _metadata_files(directory or os.curdir):
            for name, target in _entries(file):
                module, _, attribute = target.partition(":")
                text = FIRST_PARTY_HELP.get(name, f"From {distribution}.")
                found.setdefault(name, CommandEntry(module.strip(), attribute.strip(), text))
    return {name: entry for name, entry in found.items() if name not in BUILT_IN}


def _metadata_files(directory: str) -> Iterator[tuple[str, str]]:
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return
    for name in names:
        if name.endswith((".dist-info", ".egg-info")):
            distribution = name.partition("-")[0].replace("_", "-")
            yield distribution, os.path.join(directory, name, "entry_points.txt")


def _entries(file: str) -> Iterator[tuple[str, str]]:
    try:
        with open(file, encoding="utf-8") as opened:
            lines = opened.read().splitlines()
    except (OSError, UnicodeDecodeError):
        return
    inside = False
    for line in (line.strip() for line in lines):
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and "=" in line and not line.startswith(("#", ";")):
            name, _, target = line.partition("=")
            yield name.strip(), target.partition("[")[0].strip()
