"""`llmgw db`: make, migrate and check the database without starting anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def _where(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--state-dir",
            type=click.Path(path_type=Path),
            help="State directory of `llmgw up` or of a server. [default: that of `llmgw up`]",
        ),
        click.option("--database", help="Path or sqlite:/// URL of the database; instead of --state-dir."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def db() -> None:
    """Make, migrate and check the database."""


@db.command()
@_where
def upgrade(state_dir: Path | None, database: str | None) -> None:
    """Bring the database to this version's schema; make it when nothing is there."""
    from llmgw_core.store.migrate import check
    from llmgw_core.store.migrate import upgrade as migrate

    where = _database(state_dir, database)
    migrate(where)
    click.echo(f"{where}: schema {check(where)}")


@db.command()
@_where
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def check(state_dir: Path | None, database: str | None, *, as_json: bool) -> None:
    """Read the whole database; exit 1 when it is damaged, or its schema is not this version's."""
    from llmgw_core.spec.errors import StoreError
    from llmgw_core.store.migrate import check as read_through

    where = _database(state_dir, database)
    try:
        schema = read_through(where)
    except StoreError as error:
        if not as_json:
            raise
        _tell(where, ok=False, schema=None, problem={"message": error.message, "fix": error.fix})
        raise click.exceptions.Exit(error.exit_code) from None
    if as_json:
        _tell(where, ok=True, schema=schema, problem=None)
    else:
        click.echo(f"{where}: sound, schema {schema}")


def _tell(where: str | Path, **facts: object) -> None:
    click.echo(json.dumps({"database": str(where), **facts}, indent=2, ensure_ascii=False))


def _database(state_dir: Path | None, database: str | None) -> str | Path:
    from llmgw_core.cli.up.layout import default_state_dir
    from llmgw_core.store.location import database_in

    if database and state_dir:
        raise click.UsageError("give --database or --state-dir, not both")
    return database or database_in(state_dir or default_state_dir())
