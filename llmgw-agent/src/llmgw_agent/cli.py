"""`llmgw agent`: the node daemon in the foreground, and what it sees of its node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from llmgw_core.config import AgentConfig
    from llmgw_core.spec import NodeReport


_config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="agent.yaml",
)


@click.group()
def agent() -> None:
    """The daemon of one node, and what it sees of it."""


@agent.command()
@_config_option
@click.option("--drain-and-stop", is_flag=True, help="On TERM, stop the engines before leaving.")
def run(config_file: Path, drain_and_stop: bool) -> None:
    """Run the node daemon in the foreground.

    TERM leaves the engines running unless --drain-and-stop is given, a second TERM leaves at once; USR1
    leaves the engines running in any case; HUP looks at hardware and engines again.
    """
    import anyio
    from llmgw_core.config import AgentConfig
    from llmgw_core.config_file import load
    from llmgw_core.daemon import StateLock
    from llmgw_core.logging import set_up

    from llmgw_agent.address import resolved
    from llmgw_agent.serve import serve

    config = resolved(load(AgentConfig, config_file))
    set_up(config.log, "agent")
    with StateLock.take(config.state_dir / "agent.lock", "llmgw agent"):
        anyio.run(serve, config, drain_and_stop, backend_options={"use_uvloop": True})


@agent.command()
@click.option("--config", "config_file", type=click.Path(path_type=Path), metavar="FILE", help="agent.yaml")
@click.option("--json", "as_json", is_flag=True, help="The NodeReport, as the control plane gets it.")
def inventory(config_file: Path | None, as_json: bool) -> None:
    """Print what the scheduler sees of this node, with a reason for whatever is not usable."""
    import os

    from llmgw_core.config import AgentConfig
    from llmgw_core.config_file import load
    from llmgw_core.plugins import PluginHost

    from llmgw_agent.address import resolved
    from llmgw_agent.discovery import discover
    from llmgw_agent.host import LinuxHost

    config = load(AgentConfig, config_file) if config_file else _default_config()
    report = discover(resolved(config), PluginHost.load(), LinuxHost(), os.environ)
    click.echo(report.model_dump_json(indent=2) if as_json else _in_words(report))


def _default_config() -> AgentConfig:
    """A node that has no configuration yet can be looked at too; nothing is read from or sent there."""
    from llmgw_core.config import AgentConfig

    return AgentConfig(
        control_planes=("http://127.0.0.1:8081",), token_file=Path("token"), state_dir=Path("state")
    )


def _in_words(report: NodeReport) -> str:
    lines = [f"{report.node}  {report.address}  {report.cpus} CPUs  {report.memory_mib} MiB"]
    for gpu in report.gpus:
        why = "usable" if gpu.usable else "; ".join(reason.text or reason.code for reason in gpu.reasons)
        lines.append(f"GPU {gpu.index}  {gpu.gpu_class or gpu.name}  {gpu.uuid}  {why}")
    for port in report.fabric_ports:
        why = "usable" if port.usable else "; ".join(reason.text or reason.code for reason in port.reasons)
        fabric = f"{port.fabric} ({port.fabric_strength})" if port.fabric else "fabric unknown"
        lines.append(
            f"{port.device}:{port.port}  {port.link_layer}  {port.rate_gbps:g} Gb/s  {fabric}  {why}"
        )
    for engine in report.engines:
        state = engine.version if engine.usable else "; ".join(engine.problems)
        lines.append(f"{engine.name}  {state}")
    lines += [f"problem: {problem}" for problem in report.problems]
    return "\n".join(lines)
