"""Messages of the gateway stream (`/internal/v1/gateway`): tables and keys down, load and usage up."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, TypeAdapter, field_serializer

from llmgw_core.spec.engine import Signals
from llmgw_core.spec.identity import Epoch
from llmgw_core.spec.shard import ModelKind
from llmgw_core.spec.value import FrozenMap, Value
from llmgw_core.spec.wire import WIRE_VERSION, Bye, Refused, Unknown, Welcome, decode_with

__all__ = [
    "ApiKey",
    "Endpoint",
    "GatewayHello",
    "GatewayLoad",
    "GatewayMessage",
    "Keys",
    "ModelEntry",
    "RequestTimeouts",
    "Secrets",
    "Table",
    "Usage",
    "UsageRow",
    "UsageStored",
    "decode_gateway",
]


class RequestTimeouts(Value):
    """Limits of one request in seconds: to the first byte, between chunks, in all."""

    first_byte: float = 300.0
    between_chunks: float = 60.0
    total: float = 3600.0


class ModelEntry(Value):
    """A model as the gateway needs it. `state` says in words how it stands when nothing is ready.

    `retry_after` is the seconds after which a client may try again while nothing is ready.
    """

    name: str
    aliases: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    kind: ModelKind = "chat"
    timeouts: RequestTimeouts = RequestTimeouts()
    state: str = ""
    retry_after: float = 5.0
    context_length: int | None = None


class Endpoint(Value):
    """Where a replica answers HTTP; `paths` is all that may be routed to it."""

    replica: str
    model: str
    url: str
    engine: str
    version: str = ""
    paths: tuple[str, ...] = ()
    state: Literal["ready", "unknown", "draining"] = "ready"
    node_state: Literal["ready", "late", "unreachable", "lost"] = "ready"
    max_inflight: int = 64
    context_length: int | None = None
    key_version: int = 0
    signals: Signals = Signals()


class GatewayHello(Value):
    """First message of a gateway; `heard` is the epoch of the newest table that it has seen."""

    type: Literal["hello"] = "hello"
    wire: int = WIRE_VERSION
    cluster: str | None = None
    instance: str
    version: str
    heard: Epoch
    table_version: int = 0


class Table(Value):
    """The endpoint table: a pure function of reports and intents, followed by highest (epoch, version).

    While `complete` is false a gateway adds and never removes: a ready endpoint that is not listed is
    kept as unknown.
    """

    type: Literal["table"] = "table"
    epoch: Epoch
    version: int
    complete: bool
    models: tuple[ModelEntry, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    gateways_live: int = 1


class ApiKey(Value):
    """A client's key as a gateway may know it: its keyed hash, never itself. None = no such limit.

    `expires_in` is seconds from now; `models` is what it may use, None for all.
    """

    id: str
    hash: str
    owner: str = ""
    tenant: str = ""
    models: tuple[str, ...] | None = None
    expires_in: float | None = None


class Keys(Value):
    """Every key (`full`) or the changed ones, and the ids of those that ended."""

    type: Literal["keys"] = "keys"
    seq: int
    full: bool = True
    changed: tuple[ApiKey, ...] = ()
    revoked: tuple[str, ...] = ()


class Secrets(Value):
    """What a gateway needs to know engines' keys and clients' keys; hexadecimal, never logged."""

    type: Literal["secrets"] = "secrets"
    engine_keys: FrozenMap[int, SecretStr] = Field(default_factory=dict)
    pepper: SecretStr

    @field_serializer("engine_keys", when_used="json")
    def _reveal_engine_keys(self, keys: Any) -> dict[int, str]:
        return {version: key.get_secret_value() for version, key in keys.items()}

    @field_serializer("pepper", when_used="json")
    def _reveal_pepper(self, pepper: SecretStr) -> str:
        return pepper.get_secret_value()


class GatewayLoad(Value):
    """Sent every second and on change; also the heartbeat of the stream."""

    type: Literal["load"] = "load"
    heard: Epoch
    table_version: int
    in_flight: FrozenMap[str, int] = Field(default_factory=dict)
    queued: FrozenMap[str, int] = Field(default_factory=dict)
    oldest_s: FrozenMap[str, float] = Field(default_factory=dict)


class UsageRow(Value):
    """One request, without its content. Durations in seconds; `age` since it ended; None = not known."""

    id: str
    key: str
    tenant: str = ""
    model_asked: str
    model: str
    replica: str | None = None
    path: str
    streamed: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    ttft: float | None = None
    duration: float
    status: int
    outcome: Literal["ok", "refused", "cancelled", "failed", "partial"]
    age: float = 0.0


class Usage(Value):
    """A batch of rows; sent again until its `batch` is answered, stored once per row id."""

    type: Literal["usage"] = "usage"
    batch: str
    rows: tuple[UsageRow, ...]


class UsageStored(Value):
    """The batch is in the store."""

    type: Literal["usage_stored"] = "usage_stored"
    batch: str


GatewayMessage = (
    GatewayHello | Welcome | Refused | Table | Keys | Secrets | GatewayLoad | Usage | UsageStored | Bye
)
_ADAPTER: TypeAdapter[GatewayMessage] = TypeAdapter(Annotated[GatewayMessage, Field(discriminator="type")])


def decode_gateway(text: str) -> GatewayMessage | Unknown:
    """The message in `text`. Raises WireError, which names the field but never quotes its value."""
    message: GatewayMessage | Unknown = decode_with(_ADAPTER, text)
    return message
