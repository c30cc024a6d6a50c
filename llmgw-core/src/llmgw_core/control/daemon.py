"""`llmgw server`: store, control plane and admin API as one task group."""

from __future__ import annotations

import signal
from pathlib import Path

import anyio

from llmgw_core.catalog.dry_run import commands_by_hook
from llmgw_core.config import ServerConfig
from llmgw_core.control.admin import build
from llmgw_core.control.app import ControlPlane
from llmgw_core.control.catalogs import CatalogFile
from llmgw_core.daemon import bind, notify, stop_signals
from llmgw_core.placement.plugins import policies_of
from llmgw_core.plugins import PluginHost
from llmgw_core.serving import HttpServer
from llmgw_core.spec import ConfigError, StoreError
from llmgw_core.store.database import open_store
from llmgw_core.system import SystemClock, SystemRand

DRAIN_TIMEOUT = 2
"""Streams are long: agents and gateways reconnect by themselves, so nobody waits for them."""


async def run_server(config: ServerConfig) -> None:
    """Serve until a stop signal. Raises LlmgwError with its sentence when it cannot start."""
    listening = bind(config.admin_listen, setting="admin_listen")
    clock, rand = SystemClock(), SystemRand()
    plugins = PluginHost.load()
    database = config.database or config.state_dir / "llmgw.sqlite3"
    async with open_store(database, clock, rand) as store:
        if config.bootstrap.api_key_file is not None:
            await store.ensure_key(_secret(config.bootstrap.api_key_file), owner="local")
        control = ControlPlane(
            store,
            await store.facts(),
            engines=plugins.engines,
            plugins=policies_of(plugins),
            commands=commands_by_hook(plugins.call_one),
            catalog=CatalogFile(config.catalog) if config.catalog else None,
            clock=clock,
            rand=rand,
            timers=config.timers,
        )
        server = HttpServer(
            build(control, store, _tokens(config)), websockets=True, drain_timeout=DRAIN_TIMEOUT
        )
        async with anyio.create_task_group() as tasks:
            await tasks.start(stop_signals, server.drain, server.abort)
            tasks.start_soon(_hang_up, control)
            await tasks.start(control.run)
            notify("READY=1")
            await server.run_on(listening)
            notify("STOPPING=1")
            tasks.cancel_scope.cancel()


async def _hang_up(control: ControlPlane) -> None:
    """SIGHUP re-reads catalog and keys; a bad catalog is an event and changes nothing."""
    with anyio.open_signal_receiver(signal.SIGHUP) as signals:
        async for _ in signals:
            try:
                await control.reload_catalog()
                await control.publish_keys()
            except ConfigError as error:
                control.events.add("catalog_refused", "SIGHUP", f"the last good one stays: {error}")
            except StoreError as error:
                control.events.add("store_unavailable", "SIGHUP", f"nothing was read again: {error}")


def _tokens(config: ServerConfig) -> dict[str, str]:
    files = config.bootstrap
    return {
        "admin": _required(files.admin_token_file, "admin_token_file"),
        "agent": _required(files.agent_token_file, "agent_token_file"),
        "gateway": _required(files.gateway_token_file, "gateway_token_file"),
    }


def _required(path: Path | None, name: str) -> str:
    if path is None:
        raise ConfigError(f"bootstrap.{name} is not set", fix="name a 0600 file that holds a token")
    return _secret(path)


def _secret(path: Path) -> str:
    """One line of a 0600 file. Raises ConfigError when others could read it, or it is empty."""
    try:
        mode = path.stat().st_mode
        text = path.read_text().strip()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
    if mode & 0o077:
        raise ConfigError("can be read by others", where=str(path), fix=f"chmod 600 {path}")
    if not text:
        raise ConfigError("is empty", where=str(path))
    return text
