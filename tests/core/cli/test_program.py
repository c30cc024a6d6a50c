"""The program itself: lazy, extensible, and every error one message."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from llmgw_core.cli import commands, main
from llmgw_core.cli.commands import BUILT_IN, CommandEntry, installed_commands
from llmgw_core.spec import CatalogError, ConfigError, LlmgwError, Problem

HEAVY = {
    "pydantic",
    "structlog",
    "rich",
    "sqlmodel",
    "sqlalchemy",
    "httpx2",
    "uvicorn",
    "anyio",
    "pluggy",
    "yaml",
}
LOADED = """
import sys
from llmgw_core.cli.main import llmgw
llmgw({args}, standalone_mode=False)
print(*sys.modules)
"""


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on sys.path for what another distribution brings."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def bring(directory: Path, code: str, *, module: str) -> None:
    (directory / f"{module}.py").write_text(code)
    metadata = directory / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "entry_points.txt").write_text(
        "[console_scripts]\nother = other:main\n\n"
        f"[llmgw.commands]\n# a comment\n{module} = {module}:command\n"
    )


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main.llmgw, arguments)


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr("llmgw_core.cli.version.installed_versions", fail)


@pytest.mark.parametrize("arguments", (["--help"], ["version"], ["version", "--json"]))
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", LOADED.format(args=arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.splitlines()[-1]
    assert HEAVY.isdisjoint(loaded.split())


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_each_built_in_command_exists_and_explains_itself(name: str) -> None:
    result = call(name, "--help")
    assert result.exit_code == 0, result.output
    assert f"Usage: llmgw {name}" in result.output


def test_help_lists_every_command_with_a_line() -> None:
    shown = call("--help").output
    for name, entry in BUILT_IN.items():
        assert f"{name} " in shown
        assert entry.help in shown


def test_version_names_every_package(monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.loads(call("version", "--json").output)
    assert "llmgw-core" in told["packages"]
    assert f"llmgw-core {told['packages']['llmgw-core']}" in call("version").output


def test_another_distribution_brings_a_command(brought: Path) -> None:
    code = "import click\n@click.command()\ndef command():\n    click.echo('brought')\n"
    bring(brought, code, module="llmgw_t_good")
    assert "From llmgw-t-good." in call("--help").output
    assert call("llmgw_t_good").output == "brought\n"


@pytest.mark.parametrize(
    ("code", "reason"),
    (("import nothing_like_this", "No module named"), ("command = 3", "it is not a click command")),
)
def test_a_broken_command_is_told_and_the_others_go_on(brought: Path, code: str, reason: str) -> None:
    module = f"llmgw_t_bad{len(code)}"
    bring(brought, code, module=module)
    result = call(module)
    assert result.exit_code == 1
    assert f"plugin {module} refused" in result.output
    assert reason in result.output
    assert call("version").exit_code == 0


def test_the_first_on_the_path_wins_and_a_built_in_command_is_never_replaced(tmp_path: Path) -> None:
    for place, lines in (("a", "extra = one:x\nup = evil:x"), ("b", "extra = two:x [flag]")):
        directory = tmp_path / place / "dist_a-1.dist-info"
        directory.mkdir(parents=True)
        (directory / "entry_points.txt").write_text(f"[llmgw.commands]\n{lines}\n[other]\nz = z:z\n")
    path = [str(tmp_path / "none"), str(tmp_path / "a"), str(tmp_path / "b")]
    assert installed_commands(path) == {"extra": CommandEntry("one", "x", "From dist-a.")}
    assert installed_commands(path[2:])["extra"] == CommandEntry("two", "x", "From dist-a.")


def test_an_unknown_command_is_a_usage_error_that_names_the_nearest() -> None:
    result = call("verson")
    assert result.exit_code == 2
    assert "No such command 'verson'. Did you mean 'version'?" in result.output
    assert "Did you mean" not in call("xyzzy").output


@pytest.mark.parametrize(
    ("error", "code", "told"),
    (
        (ConfigError("bad", where="a.yaml:3", fix="do this"), 2, "error: a.yaml:3: bad\n  → do this\n"),
        (LlmgwError("plain"), 1, "error: plain\n"),
        (CatalogError((Problem("x", "models", "c.yaml", 2, 5),)), 2, "error: c.yaml:2:5: models: x\n"),
        (ExceptionGroup("g", [ValueError("v"), ExceptionGroup("h", [ConfigError("in")])]), 2, "error: in\n"),
    ),
)
def test_an_error_is_what_where_and_what_to_do_with_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, told: str
) -> None:
    raising(monkeypatch, error)
    result = call("version")
    assert (result.exit_code, result.stderr) == (code, told)
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("number", "advice"),
    (
        (errno.ENOSPC, "make room"),
        (errno.EDQUOT, "make room"),
        (errno.EROFS, "mounted read-only"),
        (errno.EACCES, "who may use it"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "dmesg"),
    ),
)
def test_an_error_of_the_operating_system_is_no_bug_and_says_file_reason_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    raising(monkeypatch, ExceptionGroup("g", [OSError(number, os.strerror(number), "/srv/state.json")]))
    result = call("version")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: /srv/state.json: {os.strerror(number)}\n  → ")
    assert advice in result.stderr
    assert "bug" not in result.stderr


@pytest.mark.parametrize("error", (OSError("no more of it"), TimeoutError("no more of it")))
def test_one_without_file_and_number_is_told_as_it_is(
    monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    raising(monkeypatch, error)
    result = call("version")
    assert result.stderr.startswith("error: no more of it\n")
    assert "this is a bug" not in result.stderr


def test_a_bug_is_told_without_traceback_and_with_one_under_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, KeyError("lost"))
    result = call("version")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: KeyError: 'lost'\n  → this is a bug")
    assert isinstance(call("--debug", "version").exception, KeyError)


def test_ctrl_c_is_quiet_and_exits_130(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    result = call("version")
    assert (result.exit_code, result.output) == (130, "")


def test_a_reader_that_has_seen_enough_gets_no_traceback() -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m llmgw_core --help | true"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr


def test_the_docs_have_every_command_and_option() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    for name, entry in commands.BUILT_IN.items():
        command = main.llmgw.get_command(
            main.llmgw.make_context("llmgw", ["--help"], resilient_parsing=True), name
        )
        assert command is not None
        assert f"## `llmgw {name}" in page, entry
        _documented(command, page)


def _documented(command: Any, page: str) -> None:
    for parameter in command.params:
        for option in parameter.opts:
            assert not option.startswith("--") or f"`{option}" in page, (command.name, option)
    for inner in getattr(command, "commands", {}).values():
        _documented(inner, page)
