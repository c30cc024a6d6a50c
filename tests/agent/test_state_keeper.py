"""What the keeper of a node's state says when its disk refuses to write."""

from __future__ import annotations

from pathlib import Path

import pytest
from llmgw_agent.disk import FileDisk
from llmgw_agent.state import StateKeeper

pytestmark = pytest.mark.anyio


class FullDisk(FileDisk):
    """Refuses in the way of a write to a file that is open: without the file's name."""

    async def write(self, path: str, content: bytes) -> None:
        raise OSError(28, "No space left on device")


async def test_a_write_that_fails_names_its_file(tmp_path: Path) -> None:
    keeper = StateKeeper(FullDisk(), str(tmp_path))
    with pytest.raises(OSError, match="No space") as caught:
        await keeper.update(lambda state: state)
    assert caught.value.filename == f"{tmp_path}/state.json"
