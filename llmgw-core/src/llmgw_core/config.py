"""Configuration files of the daemons: YAML, every key also by environment, unknown keys refused.

`load(ServerConfig, path)` reads a file; `LLMGW_SERVER__ADMIN_LISTEN=…` overrides `admin_listen` of a
server. Loading lives in `llmgw_core.config_file`, so that the gateway worker, which is handed its
settings as JSON, imports no YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from llmgw_core.spec.node import PortRange
from llmgw_core.spec.value import ConfigValue, FrozenMap
from llmgw_core.timers import Timers


def _host_and_port(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is not an address; write host:port, like 127.0.0.1:8080")
    return text


Address = Annotated[str, AfterValidator(_host_and_port)]
"""`host:port`."""


def split_address(address: str) -> tuple[str, int]:
    """Host and port of an Address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


class LogConfig(ConfigValue):
    """How a daemon logs to stderr: for people on a terminal, as JSON lines otherwise."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "human", "json"] = "auto"


class BootstrapConfig(ConfigValue):
    """Files with credentials that were made beforehand, each 0600 and one line.

    The server accepts these tokens, and takes `api_key_file` into its store when it is not there yet.
    """

    admin_token_file: Path | None = None
    agent_token_file: Path | None = None
    gateway_token_file: Path | None = None
    api_key_file: Path | None = None


class ServerConfig(ConfigValue):
    """`server.yaml`."""

    admin_listen: Address = "127.0.0.1:8081"
    database: str | None = None
    """`sqlite:///…`; None means `llmgw.sqlite3` in `state_dir`."""
    catalog: Path | None = None
    state_dir: Path
    timers: Timers = Timers()
    bootstrap: BootstrapConfig = BootstrapConfig()
    log: LogConfig = LogConfig()


class GatewayLimits(ConfigValue):
    """Bounds of the gateway: bytes and seconds."""

    max_body: int = Field(default=32 * 1024 * 1024, gt=0)
    connect_timeout: float = Field(default=2.0, gt=0)
    drain_timeout: float = Field(default=30.0, gt=0)


class GatewayConfig(ConfigValue):
    """`gateway.yaml`. `control_planes` are URLs like `http://127.0.0.1:8081`."""

    listen: Address = "127.0.0.1:8080"
    control_planes: tuple[str, ...] = Field(min_length=1)
    token_file: Path
    spool_dir: Path
    limits: GatewayLimits = GatewayLimits()
    log: LogConfig = LogConfig()


class AgentConfig(ConfigValue):
    """`agent.yaml`. `engines` maps an engine's name to its program, or an argv prefix."""

    control_planes: tuple[str, ...] = Field(min_length=1, max_length=8)
    token_file: Path
    node: str | None = None
    """Name of this node; None means the machine's host name."""
    address: str | None = None
    """Address where this node's engines listen; None means the one that routes to the control plane."""
    interface: str | None = None
    labels: FrozenMap[str, str] = Field(default_factory=dict)
    fabrics: FrozenMap[str, tuple[str, ...]] = Field(default_factory=dict)
    """Label → what is on that fabric: `adapter`, `adapter:port`, or the key of a fabric that was found."""
    exclude_hcas: tuple[str, ...] = ()
    """Adapters, or `adapter:port`, that no engine uses."""
    port_range: PortRange = PortRange()
    state_dir: Path
    engines: FrozenMap[str, str | tuple[str, ...]] = Field(default_factory=dict)
    timers: Timers = Timers()
    log: LogConfig = LogConfig()

    @field_validator("fabrics")
    @classmethod
    def _one_label_each(cls, fabrics: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
        entries = [entry for adapters in fabrics.values() for entry in adapters]
        twice = sorted({entry for entry in entries if entries.count(entry) > 1})
        if twice:
            raise ValueError(f"{twice[0]} is listed twice; a port is on one fabric")
        if "" in fabrics:
            raise ValueError("a label of a fabric is empty; give it a name")
        return fabrics
