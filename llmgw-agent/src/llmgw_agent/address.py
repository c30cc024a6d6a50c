"""Who this node is when its configuration does not say: host name, and the address that others reach."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from llmgw_core.config import AgentConfig
from llmgw_core.spec.errors import ConfigError


def resolved(config: AgentConfig) -> AgentConfig:
    """The configuration with `node` and `address` filled in.

    Raises ConfigError when no local address routes to the first control plane.
    """
    return config.model_copy(
        update={
            "node": config.node or socket.gethostname(),
            "address": config.address or _routing_address(config.control_planes[0]),
        }
    )


def _routing_address(control_plane: str) -> str:
    parts = urlsplit(control_plane)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_DGRAM)[0]
        with socket.socket(found[0], socket.SOCK_DGRAM) as probe:
            probe.connect(found[4])  # datagrams: routing is looked up, nothing is sent
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigError(
            f"no address of this machine reaches it: {error}",
            where=control_plane,
            fix="set address in agent.yaml to the address that the gateway can reach",
        ) from None
