"""Where a shard's processes write, and what of it is shown."""

from __future__ import annotations

from llmgw_core.node.state import Record
from llmgw_core.ports import Disk
from llmgw_core.spec.identity import replica_of

_READ_BYTES = 256 * 1024
"""Read at most from one process's log for a request, so that an answer always fits the stream."""
MAX_LINES = 2000
HIDDEN = "[engine key]"


def short_name(shard: str) -> str:
    """A shard id as a file name: `<replica>-<rank>`."""
    return f"{replica_of(shard)}-{shard.rpartition('/')[2]}"


class Logs:
    """The logs of every shard under one state directory."""

    def __init__(self, disk: Disk, state_dir: str) -> None:
        self._disk = disk
        self._root = f"{state_dir}/logs"

    def directory(self, shard: str) -> str:
        """The directory of one shard's logs."""
        return f"{self._root}/{short_name(shard)}"

    def path(self, shard: str, process: str) -> str:
        """The file that one of its processes writes to."""
        return f"{self.directory(shard)}/{process}.log"

    async def tail(self, record: Record, process: str, limit: int) -> str:
        """The last `limit` bytes of one process, without the shard's key; empty when unreadable."""
        try:
            text = await self._disk.tail(self.path(record.id, process), limit)
        except OSError:
            return ""
        return text.replace(record.key, HIDDEN) if record.key else text

    async def merged(self, record: Record, lines: int) -> str:
        """The last lines of every process of a shard, each with the process's name before it."""
        pieces: list[str] = []
        wanted = max(1, min(lines, MAX_LINES))
        for name in await self._disk.names(self.directory(record.id)):
            process = name.removesuffix(".log")
            last = (await self.tail(record, process, _READ_BYTES)).splitlines()[-wanted:]
            pieces += [f"[{process}] {line}" for line in last]
        return "\n".join(pieces) or f"no output of {record.id} is on this node"

    async def forget(self, shard: str) -> None:
        """Remove the logs of a shard that is gone."""
        for name in await self._disk.names(self.directory(shard)):
            await self._disk.remove(f"{self.directory(shard)}/{name}")
        await self._disk.remove(self.directory(shard))
