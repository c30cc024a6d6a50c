"""What each vLLM takes on its command line, and `ray start`: recorded tables, read when this is imported."""

from __future__ import annotations

from importlib import resources

from llmgw_core.spec import FlagTable, flag_tables

from llmgw_vllm.info import ENGINE

__all__ = ["RAY", "TABLES"]

RAY = "ray start"
_FILES = resources.files("llmgw_vllm").joinpath("flags")
TABLES: tuple[FlagTable, ...] = flag_tables(
    {file.name: file.read_text("utf-8") for file in _FILES.iterdir() if file.name.endswith(".json")}, ENGINE
)
