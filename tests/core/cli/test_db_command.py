"""`llmgw db`: upgrade makes and migrates, check reads and never changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from llmgw_core.cli.db import db
from llmgw_core.spec import StoreError


def run(*arguments: str) -> str:
    return CliRunner().invoke(db, arguments, catch_exceptions=False).output


def test_upgrade_makes_the_database_of_a_state_directory_and_check_finds_it_sound(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    assert "schema 0001" in run("upgrade", "--state-dir", str(tmp_path))
    assert (tmp_path / "server" / "llmgw.sqlite3").is_file()
    assert "sound, schema 0001" in run("check", "--state-dir", str(tmp_path))


def test_the_state_directory_of_a_server_alone_works_too(tmp_path: Path) -> None:
    run("upgrade", "--state-dir", str(tmp_path))
    assert (tmp_path / "llmgw.sqlite3").is_file()


def test_the_default_is_the_state_directory_of_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "llmgw" / "server").mkdir(parents=True)
    run("upgrade")
    assert (tmp_path / "llmgw" / "server" / "llmgw.sqlite3").is_file()


def test_a_database_is_named_by_path_or_url(tmp_path: Path) -> None:
    run("upgrade", "--database", f"sqlite:///{tmp_path}/one.sqlite3")
    assert "sound" in run("check", "--database", str(tmp_path / "one.sqlite3"))


def test_check_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no database"):
        run("check", "--state-dir", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_check_refuses_a_schema_that_was_not_brought_up_to_date(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "llmgw.sqlite3"
    database = sqlite3.connect(path)
    database.execute("VACUUM")
    database.close()
    assert path.stat().st_size > 0
    with pytest.raises(StoreError, match="not up to date"):
        run("check", "--database", str(path))


def test_check_tells_programs_the_same(tmp_path: Path) -> None:
    path = tmp_path / "one.sqlite3"
    run("upgrade", "--database", str(path))
    sound = json.loads(run("check", "--database", str(path), "--json"))
    assert sound == {"database": str(path), "ok": True, "schema": sound["schema"], "problem": None}
    path.write_bytes(b"no database at all")
    result = CliRunner().invoke(db, ["check", "--database", str(path), "--json"])
    assert result.exit_code == 1
    damaged = json.loads(result.stdout)
    assert (damaged["ok"], damaged["schema"]) == (False, None)
    assert "not a SQLite database" in damaged["problem"]["message"]


def test_state_dir_and_database_exclude_each_other(tmp_path: Path) -> None:
    result = CliRunner().invoke(db, ["check", "--state-dir", str(tmp_path), "--database", "x"])
    assert result.exit_code == 2
    assert "not both" in result.output
