"""Keeps the state of the node: in memory, on disk before anything acts on it, one change at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import anyio
from llmgw_core.node.assignment import evicted
from llmgw_core.node.state import NodeState, Record
from llmgw_core.ports import Disk

from llmgw_agent import saved
from llmgw_agent.logs import short_name

log = logging.getLogger(__name__)

_LOST = "its record on this node was damaged"


class StateKeeper:
    """The node's state. `update` and `change` are the only ways to change it.

    A decision of a leader is durable before anyone sees it (`update` fails otherwise); what is merely a
    fact about a process (`change`) holds also while the disk does not work, and is written later. Events
    of a record that the leader has dismissed change nothing.
    """

    def __init__(self, disk: Disk, state_dir: str) -> None:
        self._disk = disk
        self._node_path = f"{state_dir}/state.json"
        self._records_dir = f"{state_dir}/shards"
        self._state = NodeState()
        self._written: dict[str, tuple[Record | None, bytes]] = {}
        self._lock = anyio.Lock()
        self._changed = anyio.Event()

    @property
    def state(self) -> NodeState:
        """The present state."""
        return self._state

    @property
    def changed(self) -> anyio.Event:
        """Set at the next change. Take it before reading `state`, so that no change is missed."""
        return self._changed

    async def load(self) -> NodeState:
        """What the files say. Damaged ones are set aside; what they were about is recovered elsewhere.

        Raises StateDirError when a newer agent wrote them, OSError when they cannot be read.
        """
        await self._disk.make_dir(self._records_dir)
        records: dict[str, Record] = {}
        damaged: dict[str, str] = {}
        for name in await self._disk.names(self._records_dir):
            if not name.endswith(".json"):
                continue
            path = f"{self._records_dir}/{name}"
            record = saved.read_record(await self._disk.read(path) or b"", path)
            if record is None:
                await self._put_aside(path)
                replica, _, rank = name.removesuffix(".json").rpartition("-")
                damaged[f"{replica}/{rank}"] = _LOST
            else:
                records[record.id] = record
        node = await self._load_node()
        # A damaged record may have been of a shard that ran: it is refused, never started again.
        return replace(node, records=records, refused={**node.refused, **damaged})

    async def update(self, change: Callable[[NodeState], NodeState]) -> NodeState:
        """Make a change durable, then visible. Raises OSError, with nothing changed in memory."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                new = change(self._state)
                await self._write(new)
                self._show(new)
        return new

    async def commit(self, shard: str, event: Callable[[Record], Record]) -> None:
        """Apply an event to one record, durably. Raises OSError, with nothing changed in memory."""

        def changed(state: NodeState) -> NodeState:
            record = state.records.get(shard)
            return state.put(event(record)) if record else state

        await self.update(changed)

    async def change(self, shard: str, event: Callable[[Record], Record]) -> None:
        """Apply an event to one record, also while the disk does not work."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                old = self._state.records.get(shard)
                if old and (record := event(old)) != old:
                    await self._put(record)

    async def retry(self) -> None:
        """Write what could not be written before."""
        async with self._lock:
            await self._try_to_write(self._state)

    async def _load_node(self) -> NodeState:
        content = await self._disk.read(self._node_path)
        node = saved.read_node(content, self._node_path) if content is not None else None
        if node is None and content is not None:
            await self._put_aside(self._node_path)
        return node or NodeState()

    async def _put_aside(self, path: str) -> None:
        aside = await self._disk.set_aside(path)
        log.error("%s is damaged; it was moved to %s", path, aside)

    def _show(self, new: NodeState) -> None:
        self._state = new
        self._changed.set()
        self._changed = anyio.Event()

    async def _put(self, record: Record) -> None:
        new = self._state.put(record)
        if record.ended:
            new = new.without(evicted(new))
        await self._try_to_write(new)
        self._show(new)

    async def _try_to_write(self, new: NodeState) -> None:
        try:
            await self._write(new)
        except OSError as error:
            log.warning("the state cannot be written: %s; it is tried again", error)

    async def _write(self, new: NodeState) -> None:
        """Records before the node: `applied` never claims a record that a crash would lose."""
        paths = {self._path(shard): record for shard, record in new.records.items()}
        for path, record in paths.items():
            if path not in self._written or self._written[path][0] is not record:
                await self._write_file(path, record, saved.record_json(record))
        await self._write_file(self._node_path, None, saved.node_json(new))
        for path in self._written.keys() - paths.keys() - {self._node_path}:
            await self._disk.remove(path)
            del self._written[path]

    async def _write_file(self, path: str, record: Record | None, content: bytes) -> None:
        if path not in self._written or self._written[path][1] != content:
            try:
                await self._disk.write(path, content)
            except OSError as error:
                error.filename = error.filename or path  # a write to an open file names none by itself
                raise
        self._written[path] = (record, content)

    def _path(self, shard: str) -> str:
        return f"{self._records_dir}/{short_name(shard)}.json"
