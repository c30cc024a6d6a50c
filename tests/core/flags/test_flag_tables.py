"""Tables of several releases: kept as data, chosen by version, honest about what they cannot know."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pytest
from llmgw_core.spec import (
    Arity,
    BinarySpec,
    EngineInfo,
    FlagHistory,
    FlagSpan,
    FlagTable,
    Grammar,
    check_argv,
    document_json,
    flag_tables,
    history_table,
    parse_help,
    table_for,
)

ROOT = Path(__file__).parents[3]
Toy = Callable[[str], FlagTable]
INFO = EngineInfo(name="toy", title="Toy", binary=BinarySpec(names=("toy",)), paths=())
HISTORY = FlagHistory(
    engine="toy",
    captured_from="sources",
    releases=("1.0", "1.2", "2.0", "2.1"),
    grammar=Grammar(underscores=False),
    spans=(
        FlagSpan(name="--host"),
        FlagSpan(name="--old", last="1.2", instead=("--new", "--gone-too")),
        FlagSpan(name="--new", first="2.0"),
        FlagSpan(name="--shape", last="1.2", arity=Arity.NONE),
        FlagSpan(name="--shape", first="2.0", arity=Arity.ONE),
        FlagSpan(name="--gone-too", last="1.0"),
    ),
)


def names(table: FlagTable) -> set[str]:
    return set(table.by_name)


def test_a_history_says_what_each_release_has() -> None:
    assert names(history_table(HISTORY, "1.0")) == {"--host", "--old", "--shape", "--gone-too"}
    assert names(history_table(HISTORY, "1.2")) == {"--host", "--old", "--shape"}
    assert names(history_table(HISTORY, "2.1")) == {"--host", "--new", "--shape"}
    with pytest.raises(ValueError, match=r"does not have the release 3\.0"):
        history_table(HISTORY, "3.0")


def test_a_history_is_never_whole_and_says_why() -> None:
    table = history_table(HISTORY, "2.0")
    assert (table.complete, table.source) == (False, "parsed sources")
    assert "not run" in table.incomplete_because


def test_a_flag_that_changed_its_shape_has_one_for_each_release() -> None:
    assert history_table(HISTORY, "1.2").by_name["--shape"].arity is Arity.NONE
    assert history_table(HISTORY, "2.0").by_name["--shape"].arity is Arity.ONE
    assert "--shape" not in history_table(HISTORY, "2.0").absent_by_name


def test_what_is_gone_or_not_there_yet_says_so_and_names_only_what_is_there() -> None:
    (gone,) = check_argv(history_table(HISTORY, "2.0"), ("--old",))
    assert gone.message == "the last release that has it is 1.2; use --new"
    (early,) = check_argv(history_table(HISTORY, "1.0"), ("--new", "x"))
    assert early.message == "the first release that has it is 2.0"


def texts(*tables: FlagTable) -> dict[str, str]:
    files = {f"{table.program}{table.version}.json": document_json(table) for table in tables}
    return {**files, "history.json": document_json(HISTORY)}


def test_captured_tables_come_before_the_history_and_learn_from_it(toy: Toy) -> None:
    captured = toy("argparse").model_copy(update={"version": "2.0"})
    tables = flag_tables(texts(captured), INFO)
    assert [(table.version, table.source) for table in tables] == [
        ("1.0", "parsed sources"),
        ("1.2", "parsed sources"),
        ("2.0", "captured help"),
        ("2.1", "parsed sources"),
    ]
    assert tables[2].flags == captured.flags
    assert tables[2].absent_by_name["--old"].last == "1.2"


@pytest.mark.parametrize(
    ("version", "chosen", "exactness"),
    (
        ("2.0", "2.0", "exact"),
        ("2.0+cu128", "2.0", "exact"),
        ("1.9.3", "1.2", "older"),
        ("3.0", "2.1", "older"),
        ("0.9", "1.0", "newer"),
        ("", "2.1", "unknown"),
        ("nightly", "2.1", "unknown"),
    ),
)
def test_the_table_for_a_version_is_the_newest_that_is_not_newer(
    version: str, chosen: str, exactness: str
) -> None:
    found = table_for(flag_tables(texts(), INFO), INFO, version)
    assert found is not None
    assert (found.table.version, found.exactness) == (chosen, exactness)


def test_only_a_whole_table_of_the_version_itself_decides(toy: Toy) -> None:
    captured = toy("argparse").model_copy(update={"version": "2.0"})
    tables = flag_tables(texts(captured), INFO)
    decides = {version: table_for(tables, INFO, version) for version in ("2.0", "2.0.1", "1.2", "2.1")}
    assert [version for version, found in decides.items() if found and found.decides] == ["2.0"]


def test_tables_of_another_program_are_not_mixed_in(toy: Toy) -> None:
    other = toy("click").model_copy(update={"version": "9.0", "program": "toy start"})
    tables = flag_tables(texts(other), INFO)
    newest, started = table_for(tables, INFO, "9.9"), table_for(tables, INFO, "9.9", "toy start")
    assert newest is not None
    assert started is not None
    assert (newest.table.version, started.table.version) == ("2.1", "9.0")
    assert table_for(tables, INFO, "9.9", "toy stop") is None


@pytest.mark.parametrize("name", ("argparse", "click", "columns"))
def test_a_table_survives_being_written_with_one_line_for_each_flag(toy: Toy, name: str) -> None:
    table = toy(name)
    text = document_json(table)
    assert FlagTable.model_validate_json(text) == table
    assert len([line for line in text.splitlines() if line.startswith('  {"names"')]) == len(table.flags)


def test_a_copy_of_a_table_knows_its_own_flags(toy: Toy) -> None:
    table = toy("argparse")
    assert "--port" in table.by_name
    copied = table.model_copy(update={"flags": table.flags[:1], "absent": toy("columns").absent})
    assert copied.by_name.keys() == set(table.flags[0].names)
    assert "--draft" in copied.absent_by_name


def test_a_file_that_is_no_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="flags"):
        flag_tables({"1.0.json": "{}"}, INFO)


# --- the tables that the engine plugins carry --------------------------------------------------------

PLUGINS = {"llmgw_llamacpp": 6, "llmgw_vllm": 22, "llmgw_sglang": 16}


def carried(package: str) -> dict[str, str]:
    folder = files(package).joinpath("flags")
    return {file.name: file.read_text("utf-8") for file in folder.iterdir()}


@pytest.mark.parametrize("package", PLUGINS)
def test_every_carried_table_says_version_source_and_whether_it_is_whole(package: str) -> None:
    tables = flag_tables(carried(package), INFO)
    assert len(tables) == PLUGINS[package]
    for table in tables:
        assert table.version
        assert table.captured_from
        assert table.complete is (table.source == "captured help")


@pytest.mark.parametrize("package", PLUGINS)
def test_carried_tables_hold_no_prose(package: str) -> None:
    for table in flag_tables(carried(package), INFO):
        for flag in table.flags:
            assert " " not in flag.default + flag.env + "".join(flag.choices), flag


DRIFT = (
    ("llmgw_vllm", "--swap-space", "0.17.0", "0.18.0"),
    ("llmgw_vllm", "--task", "0.12.0", "0.13.0"),
    ("llmgw_vllm", "--disable-log-requests", "0.16.0", "0.17.0"),
    ("llmgw_vllm", "--guided-decoding-backend", "0.10.2", "0.11.1"),
    ("llmgw_sglang", "--torchao-config", "0.5.16", "0.5.18"),
    ("llmgw_sglang", "--stream-output", "0.5.18", "0.5.20"),
    ("llmgw_llamacpp", "--mlock", "10248", "10991"),
    ("llmgw_llamacpp", "--no-mmap", "10248", "11434"),
)


@pytest.mark.parametrize(("package", "flag", "last", "without"), DRIFT)
def test_flags_that_went_away_are_known_on_both_sides(
    package: str, flag: str, last: str, without: str
) -> None:
    tables = flag_tables(carried(package), INFO)
    before, after = table_for(tables, INFO, last), table_for(tables, INFO, without)
    assert before is not None
    assert after is not None
    assert flag in before.table.by_name
    assert flag not in after.table.by_name
    assert after.table.absent_by_name[flag].last == last


@pytest.mark.parametrize(("flag", "first"), (("--nnodes", "0.11.1"), ("--shutdown-timeout", "0.18.0")))
def test_flags_that_came_are_known_too(flag: str, first: str) -> None:
    tables = {table.version: table for table in flag_tables(carried("llmgw_vllm"), INFO)}
    assert flag in tables[first].by_name
    assert tables["0.10.2"].absent_by_name[flag].first == first


# --- the script that writes them ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = SourceFileLoader("flag_tables_script", str(ROOT / "scripts/flag-tables"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module  # its classes look their module up
    loader.exec_module(module)
    return module


def test_carried_tables_are_what_the_script_makes_of_the_recordings(
    script: ModuleType, recorded: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorded("flag-history.csv")
    monkeypatch.setattr(script, "folder", lambda plugin: _made(tmp_path / plugin))
    script.main(ROOT.parent / "shared/engines")
    for package in PLUGINS:
        made = {file.name: file.read_text() for file in (tmp_path / package.removeprefix("llmgw_")).iterdir()}
        assert made == carried(package)
        assert all(json.loads(text) for text in made.values())


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def test_the_script_refuses_a_help_that_is_cut(script: ModuleType, tmp_path: Path) -> None:
    for captured in script.CAPTURED:
        file = tmp_path / captured.file
        file.parent.mkdir(exist_ok=True)
        file.write_text("usage: toy\n\noptions:\n  --port PO")
    with pytest.raises(SystemExit, match="its last line does not end"):
        script.captured_table(tmp_path, script.CAPTURED[0])


def test_a_help_and_its_table_agree_on_any_release(toy: Toy) -> None:
    table = parse_help("options:\n  --help  show this\n", engine="toy", version="3")
    assert table.complete
    assert names(table) == {"--help"}
