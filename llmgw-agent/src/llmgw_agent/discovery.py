"""What this node is: CPUs, memory, GPUs, fabric ports and engines, with a sentence for all that is wrong.

Blocks (it reads files and runs commands): the daemon calls it from a thread.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from llmgw_core.config import AgentConfig
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import CommandResult, EngineFound, EngineInfo, FabricPort, Gpu, HostView, NodeReport

from llmgw_agent.busy_ports import busy_ports
from llmgw_agent.fabrics import with_operators_word


def discover(
    config: AgentConfig, plugins: PluginHost, host: HostView, environ: Mapping[str, str]
) -> NodeReport:
    """The node as the scheduler will see it; never raises for what is broken on it."""
    gpus, gpu_problems = _accelerators(plugins, host)
    found, fabric_problems = _fabrics(plugins, host)
    ports, label_problems = with_operators_word(found, config)
    refused = tuple(f"plugin {one.name} is not used: {one.reason}" for one in plugins.refused)
    return NodeReport(
        node=config.node or "",
        address=config.address or "",
        interface=config.interface,
        labels=config.labels,
        cpus=_cpus(host),
        memory_mib=_memory_mib(host),
        gpus=gpus,
        fabric_ports=ports,
        engines=tuple(
            find_engine(info, config.engines.get(name), host, environ)
            for name, info in sorted(plugins.engines.items())
        ),
        plugins={loaded.info.name: loaded.version for loaded in plugins.plugins},
        port_range=config.port_range,
        ports_busy=busy_ports(host, config.port_range),
        problems=(*refused, *gpu_problems, *fabric_problems, *label_problems),
    )


def find_engine(
    info: EngineInfo, configured: str | tuple[str, ...] | None, host: HostView, environ: Mapping[str, str]
) -> EngineFound:
    """Where an engine is on this node and which version, or why it cannot run here.

    Looked for in the agent's config, on PATH, then the plugin's fallback. What is found first counts,
    also when it does not work: another binary than the one that the operator put there would surprise.
    """
    spec = info.binary
    binary, origin = _binary(info, configured, host, environ)
    if not binary:
        wanted = " or ".join(spec.names) or info.name
        return _broken(info, (), f"{wanted} is neither in the agent's config nor on PATH")
    answer = host.run((*binary, *spec.version_args), spec.version_timeout)
    shown = " ".join(binary)
    if answer is None:
        return _broken(info, binary, f"{shown} ({origin}) cannot be started")
    if answer.timed_out:
        return _broken(info, binary, f"{shown} ({origin}) told no version within {spec.version_timeout:g} s")
    if answer.code != 0:
        return _broken(info, binary, f"{shown} ({origin}) does not run: {_last_line(answer)}")
    found = re.search(spec.version_pattern, answer.stdout + "\n" + answer.stderr)
    if found is None:
        return _broken(info, binary, f"{shown} ({origin}) told no version: {_last_line(answer)}")
    return EngineFound(name=info.name, version=found[1], binary=binary)


def _binary(
    info: EngineInfo, configured: str | tuple[str, ...] | None, host: HostView, environ: Mapping[str, str]
) -> tuple[tuple[str, ...], str]:
    if configured:
        return ((configured,) if isinstance(configured, str) else configured), "from the agent's config"
    for entry in environ.get("PATH", "").split(":"):
        directory = entry.rstrip("/")
        present = host.list_dir(directory) if directory else None
        for name in info.binary.names:
            if present and name in present:
                return (f"{directory}/{name}",), "on PATH"
    fallback = tuple(part.replace("{python}", sys.executable) for part in info.binary.fallback)
    return fallback, "embedded"


def _broken(info: EngineInfo, binary: tuple[str, ...], problem: str) -> EngineFound:
    hint = info.binary.install_hint
    return EngineFound(name=info.name, binary=binary, problems=(f"{problem}. {hint}" if hint else problem,))


def _last_line(answer: CommandResult) -> str:
    lines = [line.strip() for line in (answer.stdout + "\n" + answer.stderr).splitlines() if line.strip()]
    return lines[-1][:300] if lines else f"exit code {answer.code} without a word"


def _accelerators(plugins: PluginHost, host: HostView) -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
    outcomes = plugins.call_each("llmgw_accelerator_discover", host=host)
    gpus = tuple(gpu for outcome in outcomes if outcome.value for gpu in outcome.value)
    return gpus, tuple(str(outcome.error) for outcome in outcomes if outcome.error)


def _fabrics(plugins: PluginHost, host: HostView) -> tuple[tuple[FabricPort, ...], tuple[str, ...]]:
    outcomes = plugins.call_each("llmgw_fabric_discover", host=host)
    ports = tuple(port for outcome in outcomes if outcome.value for port in outcome.value)
    return ports, tuple(str(outcome.error) for outcome in outcomes if outcome.error)


def _cpus(host: HostView) -> int:
    """CPUs that this process may run on: a container or `taskset` may allow fewer than there are."""
    allowed = re.search(
        r"^Cpus_allowed_list:\s*(\S+)", host.read_text("/proc/self/status") or "", re.MULTILINE
    )
    spans = (span.partition("-") for span in allowed[1].split(",")) if allowed else ()
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans) or 1


def _memory_mib(host: HostView) -> int:
    total = re.search(r"^MemTotal:\s*(\d+) kB", host.read_text("/proc/meminfo") or "", re.MULTILINE)
    return int(total[1]) // 1024 if total else 0
