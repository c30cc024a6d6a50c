"""The catalog as far as it could be read: types are right, nothing is checked across keys yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from llmgw_core.catalog.fault import Fault, Path
from llmgw_core.catalog.schema import CatalogFile, DefaultsFile, ModelFile, ProfileFile, ServedName
from llmgw_core.catalog.words import faults_of, phrase

T = TypeVar("T", bound=BaseModel)
_NAME: TypeAdapter[str] = TypeAdapter(ServedName)
_SHARED = frozenset(DefaultsFile.model_fields)


@dataclass(frozen=True)
class DraftProfile:
    """A profile and where it stands. `broken` names the keys that could not be read.

    In `file` those have their defaults; what depends on them is not judged.
    """

    path: Path
    file: ProfileFile
    broken: frozenset[str] = frozenset()


@dataclass(frozen=True)
class DraftModel:
    """A model and where it stands; `file` is None where it is no mapping, `broken` as for a profile."""

    name: str
    path: Path
    file: ModelFile | None = None
    broken: frozenset[str] = frozenset()
    profiles: tuple[DraftProfile, ...] = ()


@dataclass
class Drafting:
    """Reads plain data part by part, so that a fault in one hides none in another."""

    faults: list[Fault] = field(default_factory=list)

    def models(self, data: Any) -> tuple[DraftModel, ...]:
        """Every model of the document, in file order."""
        self._read(CatalogFile, data, ())
        if not isinstance(data, dict):
            return ()
        defaults, models = data.get("defaults"), data.get("models")
        shared = self._defaults(defaults) if isinstance(defaults, dict) else {}
        bodies = models.items() if isinstance(models, dict) else ()
        return tuple(self._model(name, body, shared) for name, body in bodies)

    def _defaults(self, raw: dict[str, Any]) -> dict[str, Any]:
        # What is wrong there is said once, not again at every profile that it is merged under.
        _, broken = self._read(DefaultsFile, raw, ("defaults",))
        return {key: value for key, value in raw.items() if key in _SHARED - broken}

    def _model(self, name: str, raw: Any, defaults: dict[str, Any]) -> DraftModel:
        path: Path = ("models", name)
        self._check_name(name, path)
        if not isinstance(raw, dict):
            self._fault(path, "a model has to be a mapping", "give it `source:` and `profiles:`")
            return DraftModel(name, path)
        head = {key: value for key, value in raw.items() if key != "profiles"}
        file, broken = self._read(ModelFile, head, path)
        return DraftModel(name, path, file, broken, self._profiles(raw.get("profiles"), path, defaults))

    def _check_name(self, name: str, path: Path) -> None:
        try:
            _NAME.validate_python(name)
        except ValidationError as error:
            shown = name if len(name) <= 64 else f"{name[:61]}…"
            sentence, fix = phrase(error.errors()[0])
            self._fault(path, f"the model's name {shown!r} {sentence}", fix, at_key=True)

    def _profiles(self, raw: Any, path: Path, defaults: dict[str, Any]) -> tuple[DraftProfile, ...]:
        fix = "add `profiles:` with at least one profile"
        if raw is None:
            self._fault(path, "'profiles' is missing", fix, at_key=True)
        elif not isinstance(raw, list) or not raw:
            self._fault((*path, "profiles"), "'profiles' has to be a list of at least one", fix, at_key=True)
        else:
            drafts = [self._profile(item, (*path, "profiles", i), defaults) for i, item in enumerate(raw)]
            return tuple(draft for draft in drafts if draft is not None)
        return ()

    def _profile(self, raw: Any, path: Path, defaults: dict[str, Any]) -> DraftProfile | None:
        if not isinstance(raw, dict):
            self._fault(path, "a profile has to be a mapping", "write it as key: value")
            return None
        file, broken = self._read(ProfileFile, _merged(defaults, raw), path)
        return DraftProfile(path, file, broken) if file else None

    def _fault(self, path: Path, message: str, fix: str, *, at_key: bool = False) -> None:
        self.faults.append(Fault(path, message, fix, at_key))

    def _read(self, kind: type[T], raw: Any, path: Path) -> tuple[T | None, frozenset[str]]:
        """The part as far as it can be read, and the keys that could not: those are left out of it."""
        written = _without_nothing(raw)
        try:
            return kind.model_validate(written), frozenset()
        except ValidationError as error:
            self.faults.extend(faults_of(error, kind, written, path))
            found = error.errors()
        # An unknown key says nothing of those beside it; they are judged as if it were not there.
        unknown = [tuple(item["loc"]) for item in found if item["type"] == "extra_forbidden"]
        broken = frozenset(
            str(item["loc"][0]) for item in found if item["loc"] and item["loc"] not in unknown
        )
        needed = {key for key, field in kind.model_fields.items() if field.is_required()}
        if not isinstance(written, dict) or broken & needed:
            return None, broken
        return kind.model_validate(_without(written, [*unknown, *((key,) for key in broken)])), broken


def _without(raw: Mapping[str, Any], paths: list[Path]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in raw.items():
        below = [path[1:] for path in paths if path[0] == key]
        if () not in below:
            kept[key] = _without(value, below) if below else value
    return kept


def _without_nothing(raw: Any) -> Any:
    # `aliases:` with nothing behind it means what leaving it out means.
    return {k: v for k, v in raw.items() if v is not None} if isinstance(raw, dict) else raw


def _merged(defaults: Mapping[str, Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    """A profile over the defaults; mappings such as `env` are merged key by key."""
    merged = {**defaults, **_without_nothing(raw)}
    for key, value in defaults.items():
        if isinstance(value, dict) and isinstance(raw.get(key), dict):
            merged[key] = {**value, **raw[key]}
    return merged
