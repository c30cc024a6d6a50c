"""What a node is to run: the resolved profile and the shard, as design chapter 14 names their fields."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from llmgw_core.spec.identity import Epoch
from llmgw_core.spec.value import FrozenMap, Value

__all__ = ["EngineArg", "GpuRef", "HcaRef", "ModelKind", "Peer", "Profile", "Shard", "ShardGoal", "Timeouts"]

ModelKind = Literal["chat", "embedding", "rerank", "transcription"]
ShardGoal = Literal["run", "drain"]
EngineArg = str | int | float | bool | None | tuple[str | int | float, ...]
"""Value of one engine argument; None or True stands for a bare switch, a tuple for a repeated flag."""


class Profile(Value):
    """One way to run a model, with every default filled in. Times are seconds, memory is MiB."""

    name: str
    engine: str
    engine_version: str | None = None
    gpu_class: str | None = None
    nodes: int = 1
    gpus_per_node: int = 0
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    launch_mode: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    max_model_len: int | None = None
    lora: FrozenMap[str, str] = Field(default_factory=dict)
    allow_remote_code: bool = False
    engine_args: FrozenMap[str, EngineArg] = Field(default_factory=dict)
    env: FrozenMap[str, str] = Field(default_factory=dict)
    node_selector: FrozenMap[str, str] = Field(default_factory=dict)
    cpus: int = 1
    memory_mib: int = 0
    start_timeout: float = 60.0
    load_timeout: float = 1200.0
    drain_timeout: float = 120.0


class Peer(Value):
    """The node and address of one rank, so that half a replica can be recognised."""

    node: str
    address: str


class GpuRef(Value):
    """A GPU that a shard holds: index on its node, and the driver's UUID."""

    index: int
    uuid: str


class HcaRef(Value):
    """A port of an adapter that a shard uses."""

    device: str
    port: int


class Timeouts(Value):
    """Limits of one shard, in seconds.

    `start` until its processes exist, `load` until it answers, `wait` for a port that must listen first,
    `drain` for requests to end, `kill` from TERM to KILL.
    """

    start: float = 60.0
    load: float = 1200.0
    wait: float = 60.0
    drain: float = 120.0
    kill: float = 30.0


class Shard(Value):
    """The part of a replica on one node; started at most once in the world.

    Sent by the control plane, kept in the agent's state file and, since it holds no secret, in the
    environment variable LLMGW_SPEC of each of its processes.
    """

    shard: str
    replica: str
    rank: int
    world: int
    goal: ShardGoal = "run"
    epoch: Epoch
    catalog_revision: str
    revision: str
    model: str
    served_name: str
    kind: ModelKind = "chat"
    source: str
    engine: str
    profile: Profile
    peers: tuple[Peer, ...]
    address: str
    leader_address: str
    http_port: int
    rendezvous_port: int | None = None
    extra_ports: FrozenMap[str, tuple[int, ...]] = Field(default_factory=dict)
    gpus: tuple[GpuRef, ...] = ()
    cpus: int = 1
    memory_mib: int = 0
    fabric: str | None = None
    fabric_strength: Literal["label", "strong", "weak"] | None = None
    hca_ports: tuple[HcaRef, ...] = ()
    timeouts: Timeouts = Timeouts()
    stop_on_client_after: float = 0.0
    key_version: int = 0

    @property
    def node(self) -> str:
        """The node that this shard is for."""
        return self.peers[self.rank].node

    @property
    def ports(self) -> tuple[int, ...]:
        """Every port of the node that this shard holds."""
        own = (self.http_port, *(port for ports in self.extra_ports.values() for port in ports))
        rendezvous = (self.rendezvous_port,) if self.rendezvous_port and self.rank == 0 else ()
        return own + rendezvous
