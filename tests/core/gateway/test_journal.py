"""The usage journal: nothing lost by a kill, nothing kept once it is stored, never without bound."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from llmgw_core.gateway import accounting
from llmgw_core.gateway.accounting import MAX_ROWS, Journal
from llmgw_core.spec import StateDirError, UsageRow
from llmgw_core.system import SystemClock, SystemRand

WRITE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from llmgw_core.gateway.accounting import Journal
from llmgw_core.spec import UsageRow
from llmgw_core.system import SystemClock, SystemRand

journal = Journal(Path(sys.argv[1]), SystemClock(), SystemRand())
for number in range(3):
    journal.append(UsageRow(id=f"q{number}", key="k", model_asked="m", model="m", path="/", duration=1.0,
                            status=200, outcome="ok"))
os.kill(os.getpid(), signal.SIGKILL)
"""


class WallClock(SystemClock):
    now = 1000.0

    def wall(self) -> float:
        return self.now


def row(name: str) -> UsageRow:
    return UsageRow(
        id=name, key="k", model_asked="m", model="m", path="/", duration=1.0, status=200, outcome="ok"
    )


def journal_in(directory: Path, clock: SystemClock | None = None) -> Journal:
    return Journal(directory, clock or SystemClock(), SystemRand())


def ids(journal: Journal) -> list[str]:
    """The ids in every batch that can be lent, oldest first."""
    found: list[str] = []
    while (batch := journal.lend()) is not None:
        found.extend(each.id for each in batch.rows)
    return found


def test_what_a_killed_process_wrote_is_found_by_the_next(tmp_path: Path) -> None:
    died = subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(tmp_path)], check=False)
    assert died.returncode == -signal.SIGKILL
    assert ids(journal_in(tmp_path)) == ["q0", "q1", "q2"]


def test_half_a_row_at_the_end_costs_only_itself(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    for name in "abc":
        journal.append(row(name))
    (segment,) = tmp_path.iterdir()
    segment.write_bytes(segment.read_bytes()[:-20])
    assert ids(journal_in(tmp_path)) == ["a", "b"]


def test_a_stored_batch_is_gone_for_ever(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    journal.append(row("a"))
    batch = journal.lend()
    assert batch is not None
    journal.stored(batch.batch)
    assert list(tmp_path.iterdir()) == []
    assert ids(journal_in(tmp_path)) == []


def test_a_batch_stays_the_same_until_it_is_stored(tmp_path: Path) -> None:
    """Rows that come later make a batch of their own, so that sending twice cannot store half of it."""
    journal = journal_in(tmp_path)
    journal.append(row("a"))
    first = journal.lend()
    assert first is not None
    journal.append(row("b"))
    assert ids(journal) == ["b"]
    journal.give_back(first.batch)
    again = journal.lend()
    assert again is not None
    assert (again.batch, [each.id for each in again.rows]) == (first.batch, ["a"])


def test_a_lent_batch_is_lent_once(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    journal.append(row("a"))
    assert journal.lend() is not None
    assert journal.lend() is None


def test_an_unknown_batch_changes_nothing(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    journal.append(row("a"))
    journal.stored("../a")
    assert ids(journal) == ["a"]


def test_a_batch_is_bounded(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    for number in range(MAX_ROWS + 1):
        journal.append(row(str(number)))
    batch = journal.lend()
    assert batch is not None
    assert len(batch.rows) == MAX_ROWS


def test_the_age_of_a_row_is_told_when_it_is_sent(tmp_path: Path) -> None:
    clock = WallClock()
    journal = journal_in(tmp_path, clock)
    journal.append(row("a"))
    journal.close()
    clock.now += 50.0
    batch = journal_in(tmp_path, clock).lend()
    assert batch is not None
    assert batch.rows[0].age == 50.0


def test_a_clock_that_went_back_makes_no_negative_age(tmp_path: Path) -> None:
    clock = WallClock()
    journal = journal_in(tmp_path, clock)
    journal.append(row("a"))
    clock.now -= 50.0
    batch = journal.lend()
    assert batch is not None
    assert batch.rows[0].age == 0.0


def test_without_a_control_plane_the_oldest_rows_go_first_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accounting, "MAX_ROWS", 2)
    monkeypatch.setattr(accounting, "MAX_SEGMENTS", 3)
    journal = journal_in(tmp_path)
    for number in range(10):
        journal.append(row(str(number)))
    assert "dropped" in caplog.text
    assert ids(journal) == ["4", "5", "6", "7", "8", "9"]


def test_rows_that_cannot_be_written_cost_no_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "spool"
    journal = journal_in(directory)
    directory.rmdir()
    journal.append(row("a"))
    assert "usage row lost" in caplog.text
    directory.mkdir()
    journal.append(row("b"))
    assert ids(journal) == ["b"]


def test_a_row_that_was_half_written_does_not_spoil_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that is full takes a part of a write and no error."""
    journal = journal_in(tmp_path)
    journal.append(row("a"))
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:30]))
    journal.append(row("b"))
    monkeypatch.undo()
    journal.append(row("c"))
    assert "usage row lost" in caplog.text
    assert ids(journal) == ["a", "c"]


def test_a_spool_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateDirError, match="spool_dir"):
        journal_in(tmp_path / "file" / "spool")


def test_segments_are_private(tmp_path: Path) -> None:
    journal_in(tmp_path / "spool").append(row("a"))
    (segment,) = (tmp_path / "spool").iterdir()
    assert segment.stat().st_mode & 0o777 == 0o600
    assert segment.parent.stat().st_mode & 0o777 == 0o700
