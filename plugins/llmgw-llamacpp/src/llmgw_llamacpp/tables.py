"""What each llama-server takes: recorded tables of the real program, and the embedded launcher's own help.

The files are read when this module is imported, so that no hook opens one.
"""

from __future__ import annotations

from importlib import resources
from pathlib import PurePosixPath

from llmgw_core.spec import FlagTable, Grammar, Launch, flag_tables, parse_help

from llmgw_llamacpp.arglist import help_text
from llmgw_llamacpp.info import ENGINE
from llmgw_llamacpp.launcher import PROGRAM

__all__ = ["LAUNCHER", "TABLES", "is_launcher"]

_FILES = resources.files("llmgw_llamacpp").joinpath("flags")
TABLES: tuple[FlagTable, ...] = flag_tables(
    {file.name: file.read_text("utf-8") for file in _FILES.iterdir() if file.name.endswith(".json")}, ENGINE
)
# Of the package itself, whatever llama.cpp it embeds: the launcher decides which flags there are.
LAUNCHER = parse_help(
    help_text(PROGRAM), engine=ENGINE.name, version="0", captured_from=f"{PROGRAM} --help"
).model_copy(update={"grammar": Grammar(prefixes=False, equals=False, greedy=True)})


def is_launcher(launch: Launch) -> bool:
    """Whether a shard is started with the embedded launcher instead of a real llama-server."""
    module = "llmgw_llamacpp.launcher"
    return launch.binary[-2:] == ("-m", module) or PurePosixPath(launch.binary[0]).name == PROGRAM
