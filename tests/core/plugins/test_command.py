"""`llmgw plugins` as an operator sees it: a process, a table, a JSON document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import Shelf


def run(shelf: Shelf, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, as the installed program calls it, with the shelf on the import path."""
    environment = os.environ | {
        "PYTHONPATH": str(shelf.directory),
        "LLMGW_PLUGINS": ",".join(shelf.names),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    program = "from llmgw_core.cli.plugins import plugins; plugins(prog_name='llmgw plugins')"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def full_shelf(shelf: Shelf) -> Shelf:
    """One good plugin, and one of each kind of bad one."""
    shelf.engine("good", version="1.2")
    shelf.add("unimportable", "import a_module_that_is_not_there")
    shelf.engine("twin", dist="dist-one")
    shelf.engine("twin", dist="dist-two")
    shelf.engine("signature", "@hookimpl\ndef llmgw_engine_ready(answers): ...")
    shelf.engine(
        "future",
        "@hookimpl\ndef llmgw_plugin_info():\n"
        "    return PluginInfo(name='future', kind='engine', api=HOOK_API + 1, summary='')",
    )
    return shelf


def test_bad_plugins_are_rows_with_their_reasons_and_never_a_crash(full_shelf: Shelf) -> None:
    done = run(full_shelf)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["NAME", "KIND", "DISTRIBUTION", "VERSION", "API", "STATE", "SUMMARY"]
    states = [(line.split()[0], line.split()[2], line.split()[5]) for line in lines[1:7]]
    assert states == [
        ("future", "dist-future", "refused"),
        ("good", "dist-good", "loaded"),
        ("signature", "dist-signature", "refused"),
        ("twin", "dist-one", "refused"),
        ("twin", "dist-two", "refused"),
        ("unimportable", "dist-unimportable", "refused"),
    ]
    for expected in (
        "unimportable is refused: it cannot be loaded: ModuleNotFoundError",
        "twin is refused: the name 'twin' is claimed by dist-one and dist-two",
        "  the hook:   llmgw_engine_ready(shard: Shard, responses: Mapping[str, ProbeResponse]) -> Readiness",
        "  the plugin: llmgw_engine_ready(answers)",
        "future is refused: it is written for HOOK_API 2, this llmgw-core supports 1",
    ):
        assert expected in done.stdout
    assert "Traceback" not in done.stdout


def test_the_json_form_is_one_document_with_the_same_facts(full_shelf: Shelf) -> None:
    done = run(full_shelf, "--json")
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["plugins"] == [
        {
            "name": "good",
            "kind": "engine",
            "distribution": "dist-good",
            "version": "1.2",
            "api": 1,
            "summary": "for tests",
        }
    ]
    assert [(row["name"], row["distribution"]) for row in document["refused"]] == [
        ("future", "dist-future"),
        ("signature", "dist-signature"),
        ("twin", "dist-one"),
        ("twin", "dist-two"),
        ("unimportable", "dist-unimportable"),
    ]
    assert all(row["reason"] for row in document["refused"])


def test_a_summary_of_several_lines_stays_one_row(shelf: Shelf) -> None:
    shelf.engine(
        "wordy",
        "@hookimpl\ndef llmgw_plugin_info():\n"
        "    return PluginInfo(name='wordy', kind='engine', api=HOOK_API, summary='one\\ntwo')",
    )
    assert run(shelf).stdout.splitlines()[1].endswith("loaded  one two")


def test_importing_the_command_imports_neither_pluggy_nor_pydantic() -> None:
    program = "import sys, llmgw_core.cli.plugins; print({'pluggy', 'pydantic', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
