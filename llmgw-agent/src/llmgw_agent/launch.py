"""What a shard's processes are started with: the plugin's commands, and the environment around them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from llmgw_core.node.state import ENGINE, Record
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import Command, EngineFound, Launch, NodeReport, PluginFailed, Shard
from pydantic import SecretStr

from llmgw_agent.logs import Logs, short_name
from llmgw_agent.process import MARKER, PROCESS, SPEC

_PASSED_ON = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TERM|XDG_\w+|LD_LIBRARY_PATH|PYTHONPATH"
    r"|VIRTUAL_ENV|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|HF_\w+|HUGGING_FACE_\w+|TRANSFORMERS_\w+"
    r"|(?:https?|no|all)_proxy|(?:HTTPS?|NO|ALL)_PROXY|CUDA_HOME|CUDA_PATH|NVIDIA_\w+"
)
"""What an engine gets of the agent's own environment; everything else, the agent's secrets too, stays."""


class Launcher:
    """Builds the launches of this node's shards."""

    def __init__(self, plugins: PluginHost, logs: Logs, state_dir: str, environ: Mapping[str, str]) -> None:
        self._plugins = plugins
        self._logs = logs
        self._work_root = f"{state_dir}/work"
        self._environ = environ

    def launch(self, record: Record, report: NodeReport) -> Launch:
        """What the agent adds to a shard. Raises PluginFailed when a fabric plugin cannot say its part."""
        shard = record.shard
        found = report.engine(shard.engine) or EngineFound(name=shard.engine)
        ports = tuple(port for port in report.fabric_ports if _chosen(shard, port.device, port.port))
        launch = Launch(
            binary=found.binary,
            version=found.version or "",
            interface=report.interface,
            gpu_facts=tuple(gpu for gpu in report.gpus if any(gpu.index == own.index for own in shard.gpus)),
            key=SecretStr(record.key) if record.key else None,
            work_dir=self.work_dir(record.id),
            log_dir=self._logs.directory(record.id),
        )
        if not ports:
            return launch
        env: dict[str, str] = {}
        for outcome in self._plugins.call_each("llmgw_fabric_env", ports=ports, launch=launch):
            if outcome.error:
                raise outcome.error
            env |= outcome.value
        return launch.model_copy(update={"fabric_env": env})

    def commands(self, shard: Shard, launch: Launch) -> tuple[Command, ...]:
        """The processes of the shard, the engine last. Raises Unsupported or PluginFailed."""
        commands: tuple[Command, ...] = self._plugins.call_one(
            shard.engine, "llmgw_engine_commands", shard=shard, launch=launch
        )
        if not commands or commands[-1].name != ENGINE:
            raise PluginFailed(shard.engine, "llmgw_engine_commands", f"its last command is not {ENGINE!r}")
        outside = [
            path
            for command in commands
            for path in command.secret_files
            if not path.startswith(f"{launch.work_dir}/") or ".." in path
        ]
        if outside:
            reason = f"secret files belong into the work directory, not to {outside[0]}"
            raise PluginFailed(shard.engine, "llmgw_engine_commands", reason)
        return commands

    def work_dir(self, shard: str) -> str:
        """The working directory of a shard."""
        return f"{self._work_root}/{short_name(shard)}"

    def environment(self, record: Record, command: Command, launch: Launch) -> dict[str, str]:
        """The whole environment of one process. What identifies it and fences its GPUs wins over all."""
        own = {name: value for name, value in self._environ.items() if _PASSED_ON.fullmatch(name)}
        secret = {name: value.get_secret_value() for name, value in command.secret_env.items()}
        return {
            **own,
            **record.shard.profile.env,
            **command.env,
            # After the command's, since plugins repeat the profile's there: an adapter of another fabric
            # makes a job hang, so the chosen one is not for a profile to override.
            **launch.fabric_env,
            **secret,
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            # Numbers, in the order fixed above: vLLM up to 0.20.1 dies of a UUID (its issue 13815).
            "CUDA_VISIBLE_DEVICES": ",".join(str(gpu.index) for gpu in record.shard.gpus),
            # setproctitle, which vLLM's and SGLang's workers call, overwrites /proc/PID/environ otherwise.
            "SPT_NOENV": "1",
            MARKER: f"{record.id}:{record.token}",
            SPEC: record.shard.model_dump_json(),
            PROCESS: command.name,
        }


def engine_problem(report: NodeReport, engine: str) -> str | None:
    """Why the node cannot run this engine; None when it can."""
    found = report.engine(engine)
    if found is None:
        return f"this node has no plugin for {engine}"
    return None if found.usable else "; ".join(found.problems) or f"{engine} has no binary here"


def _chosen(shard: Shard, device: str, port: int) -> bool:
    return any((hca.device, hca.port) == (device, port) for hca in shard.hca_ports)
