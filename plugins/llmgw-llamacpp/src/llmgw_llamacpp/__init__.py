"""The llama.cpp plugin of llmgw: its hooks are the names of `llmgw_llamacpp.hooks`.

The hooks are looked up on first use. The embedded engine runs as `python -m llmgw_llamacpp.launcher`, which
imports this package first: with the contract and pydantic loaded here, every engine would start half a
second later and be 27 MiB larger for nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llmgw_llamacpp.hooks import (
        llmgw_engine_commands,
        llmgw_engine_info,
        llmgw_engine_probes,
        llmgw_engine_ready,
        llmgw_plugin_info,
    )

__all__ = [
    "llmgw_engine_commands",
    "llmgw_engine_info",
    "llmgw_engine_probes",
    "llmgw_engine_ready",
    "llmgw_plugin_info",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.hooks"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
