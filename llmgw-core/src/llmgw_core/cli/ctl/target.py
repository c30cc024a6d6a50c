"""Which control plane `llmgw ctl` asks, and how every command prints an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from llmgw_core.cli.admin_client import AdminClient
from llmgw_core.spec.errors import ConfigError, RequestFailed

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


@dataclass(frozen=True)
class Target:
    """What was given on the command line; what is missing comes from a local `up`."""

    server: str | None
    token: str | None = field(repr=False)
    state_dir: Path | None = None

    def client(self) -> AdminClient:
        """Raises ConfigError when it is not known whom to ask, or with which token."""
        server = self.server or self._local("server")
        return AdminClient(server, self.token or self._local("token"))

    def _local(self, what: str) -> str:
        from llmgw_core.cli.up.layout import StateLayout, default_state_dir
        from llmgw_core.cli.up.private_file import read_private
        from llmgw_core.config import ServerConfig
        from llmgw_core.config_file import load

        layout = StateLayout((self.state_dir or default_state_dir()).expanduser().absolute())
        token = read_private(layout.token("admin"))
        if not token:
            raise ConfigError(
                "no `llmgw up` has run with this state directory",
                where=str(layout.root),
                fix="give --server and --token, or --state-dir",
            )
        if what == "token":
            return token.strip()
        return load(ServerConfig, layout.config("server")).admin_listen


def rows_of(answer: object, name: str) -> list[dict[str, Any]]:
    """The list `name` in an answer. Raises RequestFailed when there is none."""
    rows = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise RequestFailed(f"an answer without {name!r}", fix="check that both sides are of one version")
    return rows


def show(answer: object, as_json: bool, render: Callable[[Any], None]) -> None:
    """Print an answer as one JSON document, or as `render` does for people."""
    if as_json:
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        render(answer)
