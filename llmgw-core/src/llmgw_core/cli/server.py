"""`llmgw server`: the control plane, in the foreground."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="server.yaml",
)
def server(config_file: Path) -> None:
    """The control plane, in the foreground.

    TERM drains and stops, a second TERM stops at once, HUP reads the catalog again.
    """
    import anyio

    from llmgw_core.config import ServerConfig
    from llmgw_core.config_file import load
    from llmgw_core.control.daemon import run_server
    from llmgw_core.daemon import StateLock
    from llmgw_core.logging import set_up

    config = load(ServerConfig, config_file)
    set_up(config.log, "server")
    with StateLock.take(config.state_dir / "server.lock", "llmgw server"):
        anyio.run(run_server, config, backend_options={"use_uvloop": True})
