"""The SGLang at hand: which flags it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmgw_core.spec import FlagTable, Unsupported, argument_fault, table_for, version_key

from llmgw_sglang.info import ENGINE, OLDEST
from llmgw_sglang.tables import TABLES

__all__ = ["Release"]


@dataclass(frozen=True)
class Release:
    """One release of SGLang; `version` is empty where it is not known, as when a catalog is checked."""

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
            raise Unsupported(
                "engine_version", f"SGLang {version} is too old; llmgw knows {OLDEST} and newer"
            )
        return cls(version, found.table)

    def has(self, flag: str) -> bool:
        """Whether it takes this flag, which must be one that the tables follow through every release."""
        return flag in self.table.by_name

    def need(self, field: str, flag: str, purpose: str) -> None:
        """Raise Unsupported for `field` when it lacks a flag that `purpose` needs."""
        if not self.has(flag):
            first = next(table.version for table in TABLES if flag in table.by_name)
            raise Unsupported(field, f"{purpose} needs SGLang {first}, this is {self.version}")

    def fault(self, items: Sequence[str]) -> str | None:
        """Why it does not take a flag with its values; None when it does or nobody knows."""
        return argument_fault(TABLES, ENGINE, self.version, items)
