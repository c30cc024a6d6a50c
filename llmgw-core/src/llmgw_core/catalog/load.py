"""Loading a catalog: whole or not at all, with every error at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmgw_core.catalog.document import Defect, read_document
from llmgw_core.catalog.draft import Drafting
from llmgw_core.catalog.dry_run import Commands, dry_run
from llmgw_core.catalog.fault import Fault, show_path
from llmgw_core.catalog.model import Catalog
from llmgw_core.catalog.nodes import Node, mark_of
from llmgw_core.catalog.resolve import check, resolve
from llmgw_core.spec.engine import EngineInfo
from llmgw_core.spec.errors import CatalogError, Problem


@dataclass(frozen=True)
class LoadedCatalog:
    """A catalog without errors, and what its operator should look at nevertheless."""

    catalog: Catalog
    warnings: tuple[Problem, ...] = ()


def load_catalog(
    text: str | bytes,
    *,
    file: str,
    engines: Mapping[str, EngineInfo],
    revision: str = "",
    commands: Commands | None = None,
) -> LoadedCatalog:
    """The catalog in `text`; `file` is only its name in messages, `engines` what plugins offer.

    With `commands`, what has no other fault is also shown to the engines' plugins, which may refuse it.
    Raises CatalogError with every problem of the file, in file order, warnings included.
    """
    root, defects = read_document(text)
    problems = [_of_defect(defect, file) for defect in defects]
    if root is None:
        raise CatalogError(tuple(problems) or (_empty(file),))
    drafting = Drafting()
    models = drafting.models(root.plain())
    faults = [*drafting.faults, *check(models, engines)]
    problems.extend(_of_fault(fault, root, file) for fault in faults)
    _refuse_errors(problems)
    catalog = resolve(models, revision)
    if commands is not None:
        refused = dry_run(catalog, engines, commands)
        problems.extend(_of_fault(fault, root, file) for fault in refused)
        _refuse_errors(problems)
    return LoadedCatalog(catalog, _in_file_order(problems))


def _refuse_errors(problems: list[Problem]) -> None:
    if any(problem.severity == "error" for problem in problems):
        raise CatalogError(_in_file_order(problems))


def _in_file_order(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))


def _empty(file: str) -> Problem:
    return Problem("the catalog is empty", file=file, line=1, column=1, fix="begin with `version: 1`")


def _of_defect(defect: Defect, file: str) -> Problem:
    mark = defect.mark
    return Problem(defect.message, file=file, line=mark.line, column=mark.column, fix=defect.fix)


def _of_fault(fault: Fault, root: Node, file: str) -> Problem:
    mark = mark_of(root, fault.path, at_key=fault.at_key)
    return Problem(
        fault.message,
        path=show_path(fault.path),
        file=file,
        line=mark.line,
        column=mark.column,
        fix=fault.fix,
        severity=fault.severity,
    )
