"""What a node reports of itself, and the view of a host that discovery plugins read through."""

from __future__ import annotations

from typing import Literal, Protocol

from pydantic import Field

from llmgw_core.spec.value import FrozenMap, Value

__all__ = [
    "CommandResult",
    "EngineFound",
    "FabricPort",
    "Gpu",
    "GpuProcess",
    "HostView",
    "NodeReport",
    "PathFact",
    "PortRange",
    "Reason",
]


class Reason(Value):
    """Why something is there but not usable: a code from the contract, and a text for a person."""

    code: str
    text: str = ""


class GpuProcess(Value):
    """A process that holds memory of a GPU; memory in MiB."""

    pid: int
    name: str
    memory_mib: int


class Gpu(Value):
    """A GPU as its driver reports it; listed also when it is not usable, with the reasons."""

    index: int
    uuid: str
    pci: str = ""
    name: str = ""
    gpu_class: str | None = None
    memory_mib: int = 0
    compute_capability: str | None = None
    usable: bool = True
    reasons: tuple[Reason, ...] = ()
    processes: tuple[GpuProcess, ...] = ()


class FabricPort(Value):
    """A port of a network adapter, and the fabric that it is attached to."""

    device: str
    port: int
    link_layer: Literal["infiniband", "roce", "other"]
    active: bool = False
    rate_gbps: float = 0.0
    netdev: str | None = None
    gid_index: int | None = None
    network: str | None = None
    subnet_prefix: str | None = None
    fabric: str | None = None
    fabric_strength: Literal["label", "strong", "weak"] | None = None
    usable: bool = False
    reasons: tuple[Reason, ...] = ()


class EngineFound(Value):
    """An engine on a node: the argv prefix that starts it and its version, or why it cannot run."""

    name: str
    version: str | None = None
    binary: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether placement may count on it."""
        return bool(self.binary) and not self.problems


class PathFact(Value):
    """What a node knows of a path that the control plane asked about. Sizes are bytes."""

    exists: bool
    kind: Literal["file", "directory", "other"] | None = None
    bytes: int | None = None
    weight_bytes: int | None = None
    layers: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    context: int | None = None
    error: str | None = None


class PortRange(Value):
    """Ports that placement may hand out on a node, both ends included; none when `last` is below `first`."""

    first: int = Field(default=20000, ge=1, le=65535)
    last: int = Field(default=20999, ge=0, le=65535)


class NodeReport(Value):
    """Everything that the scheduler sees of a node. Memory in MiB; `cpus` counts logical CPUs."""

    node: str
    address: str
    interface: str | None = None
    labels: FrozenMap[str, str] = Field(default_factory=dict)
    cpus: int
    memory_mib: int
    gpus: tuple[Gpu, ...] = ()
    nvlink_domains: tuple[tuple[int, ...], ...] = ()
    fabric_ports: tuple[FabricPort, ...] = ()
    engines: tuple[EngineFound, ...] = ()
    plugins: FrozenMap[str, str] = Field(default_factory=dict)
    port_range: PortRange = PortRange()
    ports_busy: tuple[int, ...] = ()
    paths: FrozenMap[str, PathFact] = Field(default_factory=dict)
    problems: tuple[str, ...] = ()
    stale: bool = False
    draining: bool = False
    """Its agent is about to leave and stops everything on it: nothing new may be placed there."""

    def engine(self, name: str) -> EngineFound | None:
        """The engine of that name, usable or not; None when its plugin is not on the node."""
        return next((engine for engine in self.engines if engine.name == name), None)


class CommandResult(Value):
    """How a command that a plugin asked for ended; `timed_out` when it was ended by the time limit."""

    code: int
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False


class HostView(Protocol):
    """The only way in which a discovery plugin sees the machine; replayed from recordings in tests.

    None stands for "not there or not readable"; no method raises for what the machine lacks.
    """

    def read_text(self, path: str) -> str | None:
        """The text of a file of at most 1 MiB."""

    def list_dir(self, path: str) -> tuple[str, ...] | None:
        """Sorted names in a directory."""

    def run(self, argv: tuple[str, ...], timeout: float) -> CommandResult | None:
        """Run a command with a limit in seconds; None when the program is not there."""
