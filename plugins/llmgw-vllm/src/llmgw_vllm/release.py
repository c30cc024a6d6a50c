"""The vLLM at hand: which flags it takes, and how it says what other releases say otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmgw_core.spec import FlagTable, Unsupported, argument_fault, table_for, version_key

from llmgw_vllm.info import ENGINE, OLDEST
from llmgw_vllm.tables import TABLES

__all__ = ["Release"]


@dataclass(frozen=True)
class Release:
    """One release of vLLM; `version` is empty where it is not known, as when a catalog is checked."""

    version: str
    table: FlagTable

    @classmethod
    def of(cls, version: str) -> Release:
        """The release of a version. Raises Unsupported for one that is older than all that were looked at."""
        found = table_for(TABLES, ENGINE, version)
        if found is None:
            raise AssertionError("the package has no flag tables")
        key = version_key(ENGINE, version.partition("+")[0])
        if key and key < version_key(ENGINE, OLDEST):
            raise Unsupported("engine_version", f"vLLM {version} is too old; llmgw knows {OLDEST} and newer")
        return cls(version, found.table)

    @property
    def for_cpu(self) -> bool | None:
        """Whether it was built for CPUs, which its local version says (0.32.0+cpu); None: not known."""
        return "cpu" in self.version.partition("+")[2] if self.version else None

    def has(self, flag: str) -> bool:
        """Whether it takes this flag, which must be one that the tables follow through every release."""
        return flag in self.table.by_name

    def need(self, field: str, flag: str, purpose: str, instead: str) -> None:
        """Raise Unsupported for `field` when it lacks a flag that `purpose` needs."""
        if not self.has(flag):
            first = next(
                (table.version for table in _newer(self.table) if flag in table.by_name), "a newer one"
            )
            raise Unsupported(field, f"{purpose} needs vLLM {first}, this is {self.version}; {instead}")

    def fault(self, items: Sequence[str]) -> str | None:
        """Why it does not take a flag with its values; None when it does or nobody knows."""
        return argument_fault(TABLES, ENGINE, self.version, items)


def _newer(table: FlagTable) -> tuple[FlagTable, ...]:
    mine = version_key(ENGINE, table.version)
    return tuple(one for one in TABLES if not one.program and version_key(ENGINE, one.version) > mine)
