"""The catalog as it is written: the keys of the YAML file, their types and bounds, their defaults.

Values are taken strictly (a quoted number is text, `1` is not true); durations and sizes carry a unit.
What concerns more than one key is checked elsewhere: `profile_checks`, `model_checks`, `names`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from llmgw_core.spec.shard import ModelKind
from llmgw_core.spec.units import parse_duration, parse_size_mib
from llmgw_core.spec.versions import parse_version_range

YEAR = 365 * 86400.0
MAX_REPLICAS = 1024
MAX_NODES = 1024
MAX_GPUS_PER_NODE = 64


def _seconds(value: Any) -> Any:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value != 0:
        raise ValueError(f"the duration {value} has no unit; write for instance {value}s")
    return float(value) if value == 0 and not isinstance(value, bool) else value


def _mebibytes(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a size; write a number and a unit, like 8GiB")  # noqa: TRY004
    try:
        return parse_size_mib(value)
    except OverflowError:
        raise ValueError(f"the size {value[:40]} is out of bounds") from None


def _version_range(value: Any) -> Any:
    if isinstance(value, str):
        parse_version_range(value)
    return value


def _number_as_text(value: Any) -> Any:
    # The reader takes only canonical integers as numbers, so nothing of what was written is lost.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_PLAIN = r"[A-Za-z0-9][A-Za-z0-9._:-]*"
_NO_NUL = r"^[^\x00]*$"
_SERVED = rf"^{_PLAIN}(/{_PLAIN})*$"
_SHORT = rf"^{_PLAIN}$"
_FLAG = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_FIRST = "and begins with a letter or a digit"

PATTERNS: Mapping[str, tuple[str, str]] = {
    _NO_NUL: ("may not contain a NUL character", ""),
    _SERVED: (f"may have letters, digits and . _ - : / only, {_FIRST}", ""),
    _SHORT: (f"may have letters, digits and . _ - : only, {_FIRST}", ""),
    _FLAG: (
        f"may have letters, digits and . _ - only, {_FIRST}",
        "write the flag without its dashes, the value behind the colon",
    ),
    _VARIABLE: ("may have letters, digits and _ only, and does not begin with a digit", ""),
}
"""What each pattern asks for, in words, and the fix."""

Duration = Annotated[float, BeforeValidator(_seconds), Field(ge=0, le=YEAR)]
PositiveDuration = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=YEAR)]
Size = Annotated[int, BeforeValidator(_mebibytes), Field(ge=0, le=2**32)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=_NO_NUL)]
LongText = Annotated[str, StringConstraints(max_length=32768, pattern=_NO_NUL)]
ServedName = Annotated[str, StringConstraints(max_length=128, pattern=_SERVED)]
ShortName = Annotated[str, StringConstraints(max_length=64, pattern=_SHORT)]
FlagName = Annotated[str, StringConstraints(max_length=128, pattern=_FLAG)]
VariableName = Annotated[str, StringConstraints(max_length=128, pattern=_VARIABLE)]
FlagItem = LongText | int | float
FlagValue = LongText | int | float | bool | list[FlagItem] | None


class Written(BaseModel):
    """Base of everything that stands in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ScalingFile(Written):
    """`scaling:` of a model. Without `max_replicas` it is `min_replicas`, at least 1."""

    min_replicas: int = Field(default=1, ge=0, le=MAX_REPLICAS)
    max_replicas: int | None = Field(default=None, ge=1, le=MAX_REPLICAS)
    target_inflight: int = Field(default=32, ge=1)
    scale_down_after: Duration = 600.0
    idle_timeout: Duration = 0.0


class LimitsFile(Written):
    """`limits:` of a model."""

    max_inflight: int = Field(default=64, ge=1)
    queue_size: int = Field(default=256, ge=0)
    queue_timeout: PositiveDuration = 30.0


class TimeoutsFile(Written):
    """`timeouts:` of a model."""

    first_byte: PositiveDuration = 300.0
    between_chunks: PositiveDuration = 60.0
    total: PositiveDuration = 3600.0


class DefaultsFile(Written):
    """`defaults:`, and everything of a profile but its name; `engine` may come from either.

    `profile_checks` tells when there is no engine at all.
    """

    engine: ShortName | None = None
    engine_version: Annotated[str, BeforeValidator(_version_range)] | None = None
    gpu_class: ShortName | None = None
    nodes: int = Field(default=1, ge=1, le=MAX_NODES)
    gpus_per_node: int = Field(default=0, ge=0, le=MAX_GPUS_PER_NODE)
    tensor_parallel: int = Field(default=1, ge=1)
    pipeline_parallel: int = Field(default=1, ge=1)
    data_parallel: int = Field(default=1, ge=1)
    launch_mode: ShortName | None = None
    quantization: ShortName | None = None
    kv_cache_dtype: ShortName | None = None
    max_model_len: int | None = Field(default=None, ge=1)
    lora: dict[ShortName, Text] = {}
    allow_remote_code: bool = False
    engine_args: dict[FlagName, FlagValue] = {}
    env: dict[VariableName, Annotated[LongText, BeforeValidator(_number_as_text)]] = {}
    node_selector: dict[Text, Annotated[Text, BeforeValidator(_number_as_text)]] = {}
    cpus: int = Field(default=1, ge=1, le=4096)
    memory: Size = 0
    start_timeout: PositiveDuration = 60.0
    load_timeout: PositiveDuration = 1200.0
    drain_timeout: PositiveDuration = 120.0


class ProfileFile(DefaultsFile):
    """One profile. The name may be left out where a model has one profile: it is the engine's then."""

    name: ShortName | None = None


class ModelFile(Written):
    """One model without its profiles, which are read one by one. `source` has to be there."""

    source: Text | None = None
    aliases: list[ServedName] = []
    fallbacks: list[ServedName] = []
    scaling: ScalingFile = ScalingFile()
    limits: LimitsFile = LimitsFile()
    on_lost: Literal["replace", "wait"] = "replace"
    stop_on_client_after: Duration = 0.0
    kind: ModelKind = "chat"
    routing: Literal["least_load", "prefix", "session", "round_robin"] = "least_load"
    timeouts: TimeoutsFile = TimeoutsFile()


class CatalogFile(Written):
    """The top of the file; what is below `models` is read model by model."""

    version: Literal[1]
    defaults: dict[str, Any] = {}
    models: dict[str, Any]
