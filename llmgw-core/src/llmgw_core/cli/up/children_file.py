"""`children.json`: who was started, for the supervisor that comes after one that died."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from llmgw_core.cli.up.child import ChildId
from llmgw_core.cli.up.private_file import read_private, write_private


def read_children(path: Path) -> dict[str, ChildId]:
    """Children by name; nothing when the file is not there or damaged.

    A damaged file costs the take-over and nothing else: the daemons' own locks keep a second one away.
    """
    try:
        found = json.loads(read_private(path) or "{}")
        return {
            str(name): ChildId(
                int(row["pid"]), int(row["started"]), str(row["boot"]), str(row["fingerprint"])
            )
            for name, row in found.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_children(path: Path, children: Mapping[str, ChildId]) -> None:
    """Replace the file in one step. Raises StateDirError."""
    write_private(
        path, json.dumps({name: asdict(child) for name, child in children.items()}, indent=1) + "\n"
    )
