"""`llmgw gateway`: a gateway, in the foreground."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

WORKER = "llmgw_core.gateway.worker"
SETTINGS = "LLMGW_GATEWAY_JSON"


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="gateway.yaml",
)
def gateway(config_file: Path) -> None:
    """A gateway, in the foreground. TERM lets running requests end, a second TERM cuts them."""
    from llmgw_core.config import GatewayConfig
    from llmgw_core.config_file import load

    config = load(GatewayConfig, config_file)
    # The process becomes the worker, pid and all: what was imported to read YAML would stay in memory.
    environment = {**os.environ, SETTINGS: config.model_dump_json()}
    os.execve(sys.executable, [sys.executable, "-P", "-m", WORKER], environment)  # noqa: S606
