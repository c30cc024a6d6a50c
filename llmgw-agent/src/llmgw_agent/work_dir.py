"""The working directory of a shard, which may hold its secret files."""

from __future__ import annotations

import logging

from llmgw_core.ports import Disk

log = logging.getLogger(__name__)


async def remove_work_dir(disk: Disk, directory: str) -> None:
    """Remove a working directory: secret files must not outlive the engine that they were for.

    What cannot be removed, such as the directories that an engine made, keeps nothing else from going.
    """
    try:
        for name in await disk.names(directory):
            await _remove(disk, f"{directory}/{name}")
    except OSError as error:
        log.warning("%s cannot be read: %s", directory, error)
    await _remove(disk, directory)


async def _remove(disk: Disk, path: str) -> None:
    try:
        await disk.remove(path)
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error)
