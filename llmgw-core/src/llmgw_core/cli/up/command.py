"""`llmgw up`: control plane, gateway and agent on this machine, until Ctrl-C."""

from __future__ import annotations

from pathlib import Path

import click


def _host(ctx: click.Context, parameter: click.Parameter, host: str) -> str:
    if not host or set(host) & set("[]/ "):
        raise click.BadParameter(
            f"{host!r} is no host; write an address of this machine, like 127.0.0.1 or ::1", ctx, parameter
        )
    return host


@click.command()
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Serve this GGUF file; no catalog needed.",
)
@click.option(
    "--catalog", type=click.Path(path_type=Path), metavar="FILE", help="Serve the models of this catalog."
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, callback=_host, help="Address of the gateway."
)
@click.option(
    "--port", default=8080, show_default=True, type=click.IntRange(1, 65534), help="Port of the gateway."
)
@click.option(
    "--state-dir", type=click.Path(path_type=Path), metavar="DIR", help="Default: ~/.local/state/llmgw"
)
@click.option(
    "--keep-engines", is_flag=True, help="Leave the engines running on Ctrl-C; the next `up` adopts them."
)
@click.option(
    "--print-catalog", is_flag=True, help="Print the catalog that would be used, and start nothing."
)
def up(
    *,
    model: Path | None,
    catalog: Path | None,
    host: str,
    port: int,
    state_dir: Path | None,
    keep_engines: bool,
    print_catalog: bool,
) -> None:
    """Start everything on this machine: control plane, gateway, agent, and the engines.

    Without --model and --catalog it serves the same --model as last time. Ctrl-C stops all of it,
    Ctrl-C twice at once.
    """
    try:
        _up(model, catalog, state_dir, (host, port), keep_engines=keep_engines, print_catalog=print_catalog)
    except KeyboardInterrupt:
        # From the first process on, Ctrl-C is a signal that `run_up` waits for.
        click.echo("\nnothing was started", err=True)
        raise click.exceptions.Exit(130) from None


def _up(
    model: Path | None,
    catalog: Path | None,
    state_dir: Path | None,
    at: tuple[str, int],
    *,
    keep_engines: bool,
    print_catalog: bool,
) -> None:
    from llmgw_core.cli.up.launch import launch
    from llmgw_core.cli.up.layout import StateLayout, default_state_dir
    from llmgw_core.cli.up.source import choose_source

    layout = StateLayout((state_dir or default_state_dir()).expanduser().absolute())
    source = choose_source(layout, model, catalog)
    if print_catalog:
        click.echo(source.text, nl=False)
        return
    host, port = at
    listen = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    launch(layout, source, listen, keep_engines=keep_engines)
