"""Killed by SIGKILL in the middle: migrations are finished at the next start, commits are not lost."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from llmgw_core.store.migrate import check, upgrade

CRASHING = str(Path(__file__).with_name("crashing.py"))
ROUNDS = 20


@contextmanager
def writer(root: Path) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, CRASHING, "write", str(root)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


def one_round(process: subprocess.Popen[str], acknowledged: int) -> set[str]:
    """Let a writer acknowledge so many batches, kill it, and return every batch that it acknowledged."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    batches: set[str] = set()
    child = 0
    for line in process.stdout:
        if line == "ended\n":
            break
        if line.startswith("pid "):
            child = int(line.split()[1])
        else:
            batches.add(line.strip())
        if child and len(batches) == acknowledged:
            os.kill(child, signal.SIGKILL)
    return batches


def stored(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as database:
        return {row_id for (row_id,) in database.execute("SELECT id FROM usage")}


def test_a_migration_killed_at_any_step_is_finished_by_the_next_start(tmp_path: Path) -> None:
    argv = [sys.executable, CRASHING, "migrate", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    steps = int(done.stdout)
    assert steps > 20
    for fatal in range(1, steps + 1):
        path = tmp_path / str(fatal) / "llmgw.sqlite3"
        upgrade(path)
        assert check(path) == "0001", f"killed at step {fatal}"
        assert not path.with_name("llmgw.sqlite3.new").exists()


def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "llmgw.sqlite3"
    upgrade(path)
    acknowledged: set[str] = set()
    chance = random.Random(20)
    with writer(tmp_path) as process:
        for _ in range(ROUNDS):
            acknowledged |= one_round(process, chance.randint(1, 12))
            ids = stored(path)
            assert {f"{batch}-{part}" for batch in acknowledged for part in range(3)} <= ids
            whole = Counter(row_id.rsplit("-", 1)[0] for row_id in ids)
            assert set(whole.values()) == {3}, "half a batch was stored"
    check(path)
    assert len(acknowledged) >= ROUNDS


def test_upgrading_twice_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "llmgw.sqlite3"
    upgrade(path)
    before = path.read_bytes()
    upgrade(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_upgrades_that_meet_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "llmgw.sqlite3"
    code = f"from llmgw_core.store.migrate import upgrade; upgrade({str(path)!r})"
    racing = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait() for process in racing] == [0, 0]
    assert check(path) == "0001"


def test_the_migrations_add_up_to_the_tables(tmp_path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext
    from llmgw_core.store.tables import METADATA
    from sqlalchemy import create_engine

    path = tmp_path / "llmgw.sqlite3"
    upgrade(path)
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
    engine.dispose()
