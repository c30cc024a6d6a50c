"""From what was asked for to running processes: everything that can be refused is refused first."""

from __future__ import annotations

import time

import anyio

from llmgw_core.cli.up.checks import admin_address, need_agent, need_engine, need_port
from llmgw_core.cli.up.first_run import prepare
from llmgw_core.cli.up.layout import StateLayout, shown
from llmgw_core.cli.up.plan import UpPlan, child_specs, write_configs
from llmgw_core.cli.up.printer import printer
from llmgw_core.cli.up.private_file import write_private
from llmgw_core.cli.up.run import run_up
from llmgw_core.cli.up.source import CatalogSource
from llmgw_core.cli.up.supervisor import child_environment, live_children
from llmgw_core.cli.version import installed_versions
from llmgw_core.config import split_address
from llmgw_core.daemon import StateLock


def launch(layout: StateLayout, source: CatalogSource, listen: str, *, keep_engines: bool) -> None:
    """Run until TERM or Ctrl-C. Raises ConfigError, StateDirError and PortInUse before anything starts."""
    need_agent()
    with StateLock.take(layout.lock, "llmgw up") as lock:
        _check_catalog(source)
        plan = _plan(layout, source, listen)
        lock.note(f"since {time.strftime('%Y-%m-%d %H:%M:%S')}, serving {plan.gateway_url}/v1")
        prepare(layout)
        if source.engine is not None:
            write_private(layout.catalog, source.text)
        write_configs(plan)
        environment = child_environment()
        specs = child_specs(plan, environment)
        screen = printer()
        screen.say(f"llmgw {installed_versions()['llmgw-core']} · state in {shown(layout.root)} · SQLite")
        anyio.run(lambda: run_up(plan, specs, environment, screen, keep_engines=keep_engines))


def _check_catalog(source: CatalogSource) -> None:
    from llmgw_core.catalog.dry_run import commands_by_hook
    from llmgw_core.catalog.load import load_catalog
    from llmgw_core.plugins import PluginHost

    plugins = PluginHost.load()
    need_engine(plugins.engines, source.engine)
    commands = commands_by_hook(plugins.call_one)
    load_catalog(source.text, file=str(source.file), engines=plugins.engines, commands=commands)


def _plan(layout: StateLayout, source: CatalogSource, listen: str) -> UpPlan:
    ours = live_children(layout.children)
    need_port(listen, ours, "--port")
    admin = admin_address(layout, split_address(listen)[1], ours)
    return UpPlan(layout, source.file, source.text, admin, listen)
