"""What an engine plugin says and gives: facts about the engine, commands, probes, readiness."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Literal

from pydantic import Field, SecretStr

from llmgw_core.spec.node import Gpu
from llmgw_core.spec.status import FailureClass
from llmgw_core.spec.value import FrozenMap, Value

__all__ = [
    "BinarySpec",
    "Capability",
    "Command",
    "EngineInfo",
    "FailurePattern",
    "Launch",
    "MetricContract",
    "PluginInfo",
    "PortNeed",
    "Probe",
    "ProbeResponse",
    "Probes",
    "Readiness",
    "Signals",
    "Support",
    "WaitFor",
    "version_key",
]


class PluginInfo(Value):
    """Who a plugin is: `name` equals its entry point, `api` is the HOOK_API that it was written for."""

    name: str
    kind: Literal["engine", "accelerator", "fabric", "scoring"]
    api: int
    summary: str


class Capability(StrEnum):
    """What an engine may be able to do. A new member is Unknown for every existing plugin."""

    CPU = "cpu"
    """Runs without a GPU."""
    GPU = "gpu"
    """Runs on GPUs."""
    MULTI_NODE = "multi_node"
    """One replica may span nodes."""
    TP_ACROSS_NODES = "tp_across_nodes"
    """A tensor-parallel group may span nodes."""
    LORA = "lora"
    """Serves LoRA adapters beside the base model."""
    EMBEDDING = "embedding"
    """Serves embedding models."""
    RERANK = "rerank"
    """Serves rerankers."""
    KEY_BY_ENVIRONMENT = "key_by_environment"
    """Takes its API key from the environment, so that no command line shows it."""


class Support(StrEnum):
    """An answer about a capability."""

    UNKNOWN = "unknown"
    UNSUPPORTED = "unsupported"
    SUPPORTED = "supported"


class BinarySpec(Value):
    """How to find an engine and ask its version.

    Looked for in this order: the agent's config, `names` on PATH, `fallback`. In `fallback` the item
    `{python}` stands for the agent's own interpreter. `version_pattern` has one group and is searched in
    the output of the binary with `version_args`; a version command that fails is a problem of the node.
    """

    names: tuple[str, ...]
    fallback: tuple[str, ...] = ()
    version_args: tuple[str, ...] = ("--version",)
    version_pattern: str = r"(\d+(?:\.\d+)*)"
    version_timeout: float = 30.0
    help_args: tuple[str, ...] = ("--help",)
    install_hint: str = ""


class FailurePattern(Value):
    """A regular expression over the last lines of a log, and the class of failure that it shows.

    Patterns are tried in order; `hint` tells the operator what to do.
    """

    pattern: str
    failure: FailureClass
    hint: str = ""


class PortNeed(Value):
    """Ports that a shard needs besides its HTTP port.

    `scope` is `all_ranks_interface` for a port that the engine opens on every interface.
    """

    name: str
    count: int = 1
    scope: Literal["own_address", "all_ranks_interface"] = "own_address"
    ranks: Literal["leader", "all"] = "all"
    only_multi_node: bool = False


class Signals(Value):
    """Names of the metrics that load-aware routing reads, for one engine version; None = not offered."""

    running: str | None = None
    waiting: str | None = None
    kv_usage: str | None = None
    tokens_total: str | None = None


class MetricContract(Value):
    """The signals of a range of engine versions; `versions` is like ">=0.10,<0.12", empty for all."""

    versions: str = ""
    signals: Signals


class EngineInfo(Value):
    """Facts about an engine, as data: everything that core needs without running plugin code."""

    name: str
    title: str
    binary: BinarySpec
    capabilities: FrozenMap[Capability, Support] = Field(default_factory=dict)
    paths: tuple[str, ...]
    """HTTP paths that the gateway may route to this engine; nothing else of it is reachable."""
    failure_patterns: tuple[FailurePattern, ...] = ()
    ports: tuple[PortNeed, ...] = ()
    metrics: tuple[MetricContract, ...] = ()
    version_pattern: str = r"\d+"
    max_nodes: int = 1

    def supports(self, capability: Capability) -> bool:
        """Whether the plugin declared it as supported; unknown counts as no."""
        return self.capabilities.get(capability) is Support.SUPPORTED


def version_key(info: EngineInfo, version: str) -> tuple[int, ...]:
    """A version as numbers, for comparing; pieces are what `info.version_pattern` finds."""
    return tuple(int(piece) for piece in re.findall(info.version_pattern, version) if piece.isdigit())


class Launch(Value):
    """What the agent adds to a shard before it asks a plugin for commands.

    `binary` is an argv prefix. `key` is what the engine must ask every client for; None where the
    control plane has no store. `work_dir` and `log_dir` belong to the shard alone.
    """

    binary: tuple[str, ...]
    version: str
    interface: str | None = None
    gpu_facts: tuple[Gpu, ...] = ()
    fabric_env: FrozenMap[str, str] = Field(default_factory=dict)
    key: SecretStr | None = None
    work_dir: str
    log_dir: str


class WaitFor(Value):
    """A port that must listen before a command is started, with a limit in seconds."""

    host: str
    port: int
    timeout: float


class Command(Value):
    """One process of a shard. `argv` begins with the binary prefix; every item is one argument.

    `env` is added to an allow-list of the agent's own environment. `secret_env` and `secret_files`
    (path → content, written 0600) never reach a log. `grace` is seconds from the stop signal to KILL.
    """

    name: str
    argv: tuple[str, ...]
    env: FrozenMap[str, str] = Field(default_factory=dict)
    secret_env: FrozenMap[str, SecretStr] = Field(default_factory=dict)
    secret_files: FrozenMap[str, SecretStr] = Field(default_factory=dict)
    wait_for: WaitFor | None = None
    stop_signal: Literal["TERM", "INT"] = "TERM"
    grace: float = 30.0


class Probe(Value):
    """One HTTP request to the shard's own port, with the engine's key; `timeout` in seconds."""

    method: Literal["GET", "POST"] = "GET"
    path: str
    body: str | None = None
    timeout: float = 5.0


class Probes(Value):
    """The three questions, and one for later.

    `startup`: is the process up? `readiness`: are the weights loaded, under which name? `inference`: can
    it infer? `liveness`: asked from then on; busy engines must not fail it.
    """

    startup: Probe
    readiness: Probe
    inference: Probe
    liveness: Probe


class ProbeResponse(Value):
    """Answer to a probe: an HTTP status with at most 64 KiB of body, or the transport error."""

    status: int | None = None
    body: str = ""
    error: str | None = None


class Readiness(Value):
    """Whether the shard may be routed to, and the reason when not."""

    ready: bool
    reason: str = ""
