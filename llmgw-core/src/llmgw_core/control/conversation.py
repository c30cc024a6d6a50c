"""What the control plane's ends of both kinds of stream share: refusing one, and speaking on one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from llmgw_core.ports import Stream
from llmgw_core.spec import Refused, StreamEnded, StreamRefused, encode


async def refuse(stream: Stream, refusal: StreamRefused) -> None:
    """Tell the other side why; one that has gone meanwhile needs no answer."""
    with suppress(StreamEnded):
        await stream.send(encode(Refused(code=refusal.code, message=refusal.message, fix=refusal.fix or "")))
    await stream.close()


async def converse(read: Callable[[], Awaitable[None]], write: Callable[[], Awaitable[None]]) -> None:
    """Read and write at once, until either returns or raises StreamEnded; the other is cancelled then."""
    async with anyio.create_task_group() as tasks:

        async def until_the_end(speak: Callable[[], Awaitable[None]]) -> None:
            with suppress(StreamEnded):
                await speak()
            tasks.cancel_scope.cancel()

        tasks.start_soon(until_the_end, write)
        await until_the_end(read)
