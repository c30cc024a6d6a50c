"""What is looked at before anything starts; each raises an error that says what to do."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from llmgw_core.cli.commands import installed_commands
from llmgw_core.cli.up.layout import StateLayout
from llmgw_core.config import split_address
from llmgw_core.daemon import bind
from llmgw_core.listeners import listener
from llmgw_core.spec.errors import ConfigError, PortInUse

TRIED_PORTS = 100


def need_agent() -> None:
    """Raises ConfigError when this environment has no agent."""
    if "agent" not in installed_commands():
        raise ConfigError("the node daemon is not installed here", fix="pip install llmgw-agent")


def need_engine(installed: Collection[str], name: str | None) -> None:
    """Raises ConfigError when the engine `name` (any engine for None) is not among the `installed` ones."""
    if name is not None and name not in installed:
        raise ConfigError(
            f"the plugin of engine {name!r} is not installed here",
            fix=f'pip install "llmgw-{name}[embedded]"; `llmgw plugins` shows what is there',
        )
    if not installed:
        raise ConfigError(
            "no engine plugin is installed here",
            fix='pip install "llmgw-llamacpp[embedded]" (or llmgw-vllm, llmgw-sglang)',
        )


def model_file(path: Path) -> Path:
    """The absolute path of a model file. Raises ConfigError when there is no such file."""
    whole = Path(os.path.abspath(path.expanduser()))
    if whole.is_dir():
        raise ConfigError("is a directory", where=str(whole), fix="name the .gguf file in it")
    if not whole.exists():
        raise ConfigError("no such model file", where=str(whole), fix="check the path given to --model")
    return whole


def need_port(address: str, ours: frozenset[int]) -> None:
    """Raises PortInUse when `address` is taken by a process that is not one of `ours`.

    Raises ConfigError when this machine has no such address, or the port needs more rights.
    """
    try:
        bind(address, setting="--port", host_setting="--host").close()
    except PortInUse:
        holder = listener(split_address(address)[1])
        if holder is None or holder.pid not in ours:
            raise


def admin_address(layout: StateLayout, gateway_port: int, ours: frozenset[int]) -> str:
    """Where the admin API listens: where it did last time, else the next free port above the gateway's."""
    last = _last_admin_address(layout)
    candidates = [last] if last else []
    candidates += [f"127.0.0.1:{port}" for port in _ports_above(gateway_port)]
    for address in candidates:
        if split_address(address)[1] != gateway_port and _usable(address, ours):
            return address
    raise PortInUse(
        f"no free port for the admin API in the {TRIED_PORTS} above {gateway_port}", fix="use --port"
    )


def _ports_above(port: int) -> Iterator[int]:
    return iter(range(port + 1, min(port + 1 + TRIED_PORTS, 65536)))


def _usable(address: str, ours: frozenset[int]) -> bool:
    try:
        need_port(address, ours)
    except PortInUse:
        return False
    return True


def _last_admin_address(layout: StateLayout) -> str | None:
    """None also when the file cannot be used: it is written anew in any case."""
    from llmgw_core.config import ServerConfig
    from llmgw_core.config_file import load

    try:
        return load(ServerConfig, layout.config("server"), {}).admin_listen
    except ConfigError:
        return None
