"""Messages of the agent stream: JSON, one object per WebSocket message, at most 8 MiB.

The `type` field names the message. Unknown fields are ignored; an unknown type decodes to `Unknown`, so
that a newer peer never crashes an older one. Times are durations in seconds, never clock readings.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, TypeAdapter, ValidationError, field_serializer

from llmgw_core.spec.errors import WireError
from llmgw_core.spec.identity import Epoch, Stamp
from llmgw_core.spec.node import NodeReport
from llmgw_core.spec.shard import Shard
from llmgw_core.spec.status import ShardStatus
from llmgw_core.spec.value import FrozenMap, Value

__all__ = [
    "MAX_MESSAGE_BYTES",
    "WIRE_VERSION",
    "Ack",
    "AgentMessage",
    "Assign",
    "Bye",
    "ByeReason",
    "Lead",
    "LogsRequest",
    "ProbeRequest",
    "Refused",
    "Register",
    "Reply",
    "Report",
    "ShardRecord",
    "StopOrder",
    "Unknown",
    "Welcome",
    "decode",
    "encode",
]

WIRE_VERSION = 1
"""Grows with a change that an older peer could not live with; within one, changes are additive."""
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
MAX_TYPE_LENGTH = 64

ByeReason = Literal[
    "shutdown", "draining", "taken_over", "no_acknowledgement", "wrong_cluster", "protocol", "restarting"
]


class ShardRecord(Value):
    """A shard as its node knows it: what it was told to run, and how that stands."""

    shard: Shard
    status: ShardStatus


class Register(Value):
    """First message of every connection, sent once adoption and the process scan are complete.

    `cluster` is None before the node has ever been welcomed. `heard` is the highest epoch it has heard,
    `applied` the last assignment that it acted on: None says that its state was lost.
    """

    type: Literal["register"] = "register"
    wire: int = WIRE_VERSION
    cluster: str | None = None
    node: str
    instance: str
    agent_version: str
    boot: str
    heard: Epoch
    applied: Stamp | None
    seq: int
    report: NodeReport
    shards: tuple[ShardRecord, ...] = ()


class Welcome(Value):
    """The control plane takes the stream; reports are wanted every `report_every` seconds."""

    type: Literal["welcome"] = "welcome"
    wire: int = WIRE_VERSION
    cluster: str
    control: str
    leader: bool
    report_every: float


class Refused(Value):
    """The stream is refused: a stable code, a sentence, and what to do."""

    type: Literal["refused"] = "refused"
    code: str
    message: str
    fix: str = ""


class Lead(Value):
    """A new leader speaks; the agent persists the epoch and echoes it in its next report."""

    type: Literal["lead"] = "lead"
    cluster: str
    epoch: Epoch


class Report(Value):
    """Everything that runs on a node: sent on change and as heartbeat.

    `echo` is set in the report that answers a `lead`. `report` is the node itself, when it changed.
    """

    type: Literal["report"] = "report"
    seq: int
    heard: Epoch
    applied: Stamp | None
    echo: Epoch | None = None
    shards: tuple[ShardStatus, ...] = ()
    report: NodeReport | None = None
    refused: FrozenMap[str, str] = Field(default_factory=dict)


class Ack(Value):
    """The control plane has the report `seq` in its state; its absence tells of a one-way cut."""

    type: Literal["ack"] = "ack"
    seq: int


class StopOrder(Value):
    """A shard that should go, why, and how long it has from TERM to KILL (seconds)."""

    shard: str
    reason: str
    grace: float = 30.0


class Assign(Value):
    """What should be on the node and what should go. Absence from both lists stops nothing.

    `keys` maps a replica to its engine key and is never part of a Shard. `dismiss` names terminal
    records that may be forgotten. `watch_paths` are paths whose PathFact belongs in the next report.
    """

    type: Literal["assign"] = "assign"
    epoch: Epoch
    number: int
    run: tuple[Shard, ...] = ()
    stop: tuple[StopOrder, ...] = ()
    keys: FrozenMap[str, SecretStr] = Field(default_factory=dict)
    dismiss: tuple[str, ...] = ()
    watch_paths: tuple[str, ...] = ()

    @field_serializer("keys", when_used="json")
    def _reveal(self, keys: Any) -> dict[str, str]:
        # Only the wire form carries the keys in clear; repr and logs show asterisks.
        return {replica: key.get_secret_value() for replica, key in keys.items()}

    @property
    def stamp(self) -> Stamp:
        """Its place in the order of assignments to this node."""
        return Stamp(epoch=self.epoch, number=self.number)


class LogsRequest(Value):
    """Asks for the last `lines` lines of a shard's merged output; answered by `Reply`."""

    type: Literal["logs"] = "logs"
    request: str
    shard: str
    lines: int = 200


class ProbeRequest(Value):
    """Asks the agent to probe a shard at once; answered by `Reply`."""

    type: Literal["probe"] = "probe"
    request: str
    shard: str


class Reply(Value):
    """Answer to a named operation; `error` says why there is no text."""

    type: Literal["reply"] = "reply"
    request: str
    text: str = ""
    error: str | None = None


class Bye(Value):
    """Either side ends the stream on purpose."""

    type: Literal["bye"] = "bye"
    reason: ByeReason
    message: str = ""


class Unknown(Value):
    """A message type that this version does not know; it is refused without a crash."""

    type: str


AgentMessage = (
    Register | Welcome | Refused | Lead | Report | Ack | Assign | LogsRequest | ProbeRequest | Reply | Bye
)
_ADAPTER: TypeAdapter[AgentMessage] = TypeAdapter(Annotated[AgentMessage, Field(discriminator="type")])


def encode(message: Value) -> str:
    """The JSON text of a message. Raises WireError when it is over the limit of the stream."""
    text = message.model_dump_json()
    _refuse_large(text, f"a {type(message).__name__.lower()}")
    return text


def decode(text: str) -> AgentMessage | Unknown:
    """The message in `text`.

    Raises WireError, which names the field but never quotes its value (it may be a key).
    """
    message: AgentMessage | Unknown = decode_with(_ADAPTER, text)
    return message


def decode_with(adapter: TypeAdapter[Any], text: str) -> Any:
    """Decode one message of the union that `adapter` knows; see `decode`."""
    _refuse_large(text, "a message")
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        if first["type"] == "union_tag_invalid":
            return Unknown(type=str(first.get("ctx", {}).get("tag", ""))[:MAX_TYPE_LENGTH])
        place = ".".join(str(part) for part in first["loc"]) or "message"
        raise WireError(f"{place}: {first['msg']}") from None


def _refuse_large(text: str, what: str) -> None:
    """The limit is one of bytes: a character may take four of them."""
    size = len(text.encode("utf-8", "surrogatepass")) if 4 * len(text) > MAX_MESSAGE_BYTES else len(text)
    if size > MAX_MESSAGE_BYTES:
        raise WireError(f"{what} of {size} bytes is over the limit of {MAX_MESSAGE_BYTES}")
