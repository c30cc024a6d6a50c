"""From what was asked for to running processes: everything that can be refused is refused first."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import anyio

from llmgw_core.cli.up.checks import admin_address, need_agent, need_engine, need_port
from llmgw_core.cli.up.ending import listed
from llmgw_core.cli.up.engines import engine_processes
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
        models = _checked_models(source)
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
        say_what_ends(layout, models, screen.say)
        anyio.run(lambda: run_up(plan, specs, environment, screen, keep_engines=keep_engines))


def _checked_models(source: CatalogSource) -> Collection[str]:
    """Names of the catalog's models. Raises ConfigError when it cannot be served."""
    from llmgw_core.catalog.dry_run import commands_by_hook
    from llmgw_core.catalog.load import load_catalog
    from llmgw_core.plugins import PluginHost

    plugins = PluginHost.load()
    need_engine(plugins.engines, source.engine)
    commands = commands_by_hook(plugins.call_one)
    loaded = load_catalog(source.text, file=str(source.file), engines=plugins.engines, commands=commands)
    return loaded.catalog.models.keys()


def say_what_ends(layout: StateLayout, models: Collection[str], say: Callable[[str], None]) -> None:
    """Engines that an earlier `up` kept are adopted, but not for models that are not served any more."""
    others = [engine for engine in engine_processes(layout.data("agent")) if engine.model not in models]
    if others:
        say(f"kept from before: {listed(others)}; this catalog has no such model, so it is stopped now")


def _plan(layout: StateLayout, source: CatalogSource, listen: str) -> UpPlan:
    ours = live_children(layout.children)
    need_port(listen, ours)
    admin = admin_address(layout, split_address(listen)[1], ours)
    return UpPlan(layout, source.file, source.text, admin, listen)
