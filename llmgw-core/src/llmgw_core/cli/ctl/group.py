"""`llmgw ctl`: the admin client."""

from __future__ import annotations

from pathlib import Path

import click

from llmgw_core.cli.ctl import actions, lists
from llmgw_core.cli.ctl.target import Target
from llmgw_core.cli.engine_check import engine_check


@click.group()
@click.option("--server", envvar="LLMGW_SERVER", metavar="URL", help="The control plane [env: LLMGW_SERVER].")
@click.option("--token", envvar="LLMGW_TOKEN", metavar="TOKEN", help="Admin token [env: LLMGW_TOKEN].")
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where a local `llmgw up` has address and token. Default: ~/.local/state/llmgw",
)
@click.pass_context
def ctl(ctx: click.Context, server: str | None, token: str | None, state_dir: Path | None) -> None:
    """Ask and steer a control plane; without options the one of a local `llmgw up`."""
    ctx.obj = Target(server, token, state_dir)


for command in (*lists.COMMANDS, *actions.COMMANDS, engine_check):
    ctl.add_command(command)
