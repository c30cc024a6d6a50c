"""A process that forks children which are killed: in a migration, or between commits.

`migrate DIR`: child n upgrades `DIR/<n>/llmgw.sqlite3` and is killed at its n-th step (a statement, a
commit, the renaming); prints how many steps there are. `write DIR`: for each line of stdin, forks a child
that stores usage rows and prints each id once it is acknowledged, until somebody kills it.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path

import anyio
from llmgw_core.spec import UsageRow
from llmgw_core.store.database import open_store
from llmgw_core.store.migrate import upgrade
from llmgw_core.system import SystemClock, SystemRand
from sqlalchemy import event
from sqlalchemy.engine import Engine


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_step(fatal: int) -> None:
    steps = itertools.count(1)

    def step(*_: object, **__: object) -> None:
        if next(steps) == fatal:
            die()

    event.listen(Engine, "before_cursor_execute", step)
    event.listen(Engine, "commit", step)
    rename = Path.rename

    def rename_between_steps(self: Path, target: Path) -> Path:
        step()
        renamed = rename(self, target)
        step()
        return renamed

    Path.rename = rename_between_steps  # type: ignore[method-assign, assignment]


def migrate(root: Path) -> None:
    for fatal in itertools.count(1):
        path = root / str(fatal) / "llmgw.sqlite3"
        path.parent.mkdir()
        child = os.fork()
        if child == 0:
            die_at_step(fatal)
            upgrade(path)
            os._exit(0)
        if os.WIFEXITED(os.waitpid(child, 0)[1]):
            print(fatal - 1, flush=True)
            return


async def write_for_ever(path: Path) -> None:
    prefix = os.getpid()
    async with open_store(path, SystemClock(), SystemRand()) as store:
        for number in itertools.count():
            rows = [
                UsageRow(
                    id=f"{prefix}-{number}-{part}",
                    key="k",
                    model_asked="m",
                    model="m",
                    path="/v1/completions",
                    duration=1.0,
                    status=200,
                    outcome="ok",
                )
                for part in range(3)
            ]
            await store.add_usage(rows)
            os.write(1, f"{prefix}-{number}\n".encode())


def write(root: Path) -> None:
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            anyio.run(write_for_ever, root / "llmgw.sqlite3")
        os.write(1, f"pid {child}\n".encode())
        os.waitpid(child, 0)
        os.write(1, b"ended\n")


if __name__ == "__main__":
    {"migrate": migrate, "write": write}[sys.argv[1]](Path(sys.argv[2]))
