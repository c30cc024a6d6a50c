"""What each SGLang takes on its command line: recorded tables, read when this is imported."""

from __future__ import annotations

from importlib import resources

from llmgw_core.spec import FlagTable, flag_tables

from llmgw_sglang.info import ENGINE

__all__ = ["TABLES"]

_FILES = resources.files("llmgw_sglang").joinpath("flags")
TABLES: tuple[FlagTable, ...] = flag_tables(
    {file.name: file.read_text("utf-8") for file in _FILES.iterdir() if file.name.endswith(".json")}, ENGINE
)
