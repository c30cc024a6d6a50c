"""What an `up` runs: the configuration of each daemon, and how each is started."""

from __future__ import annotations

import hashlib
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from llmgw_core.cli.up.child import ChildSpec
from llmgw_core.cli.up.layout import StateLayout
from llmgw_core.cli.up.private_file import write_private
from llmgw_core.cli.version import installed_versions
from llmgw_core.config import AgentConfig, BootstrapConfig, GatewayConfig, ServerConfig, split_address
from llmgw_core.config_file import prefix

ORDER = ("server", "gateway", "agent")


@dataclass(frozen=True)
class UpPlan:
    """Everything that was decided before the first process starts."""

    layout: StateLayout
    catalog: Path
    catalog_text: str
    admin_listen: str
    gateway_listen: str

    @property
    def admin_url(self) -> str:
        return f"http://{self.admin_listen}"

    @property
    def gateway_url(self) -> str:
        """Where this machine reaches the gateway, also when it listens on every address."""
        host, port = split_address(self.gateway_listen)
        near = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
        return f"http://[{near}]:{port}" if ":" in near else f"http://{near}:{port}"

    def configs(self) -> dict[str, BaseModel]:
        """The configuration of each daemon."""
        layout = self.layout
        return {
            "server": ServerConfig(
                admin_listen=self.admin_listen,
                catalog=self.catalog,
                state_dir=layout.data("server"),
                bootstrap=BootstrapConfig(
                    admin_token_file=layout.token("admin"),
                    agent_token_file=layout.token("agent"),
                    gateway_token_file=layout.token("gateway"),
                    api_key_file=layout.api_key,
                ),
            ),
            "gateway": GatewayConfig(
                listen=self.gateway_listen,
                control_planes=(self.admin_url,),
                token_file=layout.token("gateway"),
                spool_dir=layout.data("gateway"),
            ),
            "agent": AgentConfig(
                control_planes=(self.admin_url,),
                token_file=layout.token("agent"),
                address="127.0.0.1",
                state_dir=layout.data("agent"),
            ),
        }


def write_configs(plan: UpPlan) -> None:
    """Write `config/*.yaml`. Raises StateDirError."""
    import yaml

    for daemon, config in plan.configs().items():
        head = "# Made by `llmgw up`, anew at each start. Settings of your own: LLMGW_… in the environment.\n"
        settings = config.model_dump(mode="json", exclude_defaults=True)
        write_private(plan.layout.config(daemon), head + yaml.safe_dump(settings, sort_keys=False))


def child_specs(plan: UpPlan, environment: Mapping[str, str]) -> tuple[ChildSpec, ...]:
    """How each daemon is started. Its fingerprint changes with whatever it reads only at its start."""
    program = (sys.executable, "-P", "-m", "llmgw_core")
    arguments = {
        "server": ("server", "--config", str(plan.layout.config("server"))),
        "gateway": ("gateway", "--config", str(plan.layout.config("gateway"))),
        "agent": ("agent", "run", "--config", str(plan.layout.config("agent")), "--drain-and-stop"),
    }
    return tuple(
        ChildSpec(
            name,
            argv=(*program, *arguments[name]),
            log=plan.layout.log(name),
            fingerprint=_fingerprint(plan, name, (*program, *arguments[name]), environment),
            leave=signal.SIGUSR1 if name == "agent" else signal.SIGTERM,
            # Both would find nobody, and be patient before they try again.
            after=None if name == "server" else plan.admin_listen,
        )
        for name in ORDER
    )


def _fingerprint(plan: UpPlan, name: str, argv: tuple[str, ...], environment: Mapping[str, str]) -> str:
    config = plan.configs()[name]
    mine = sorted(item for item in environment.items() if item[0].startswith(prefix(type(config))))
    parts = [*argv, config.model_dump_json(), repr(mine), repr(sorted(installed_versions().items()))]
    if name == "server":
        parts.append(plan.catalog_text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
