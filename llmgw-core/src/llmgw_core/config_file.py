"""Reading a daemon's configuration: a YAML file, and the environment over it.

`LLMGW_SERVER__ADMIN_LISTEN=127.0.0.1:9000` overrides `admin_listen` of `server.yaml`; two underscores go
one level down. A value that begins with `[` or `{` is read as YAML, so lists can be given too.
Relative paths are meant from the directory of the file, whichever of the two they come from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from llmgw_core.spec.errors import ConfigError, Problem
from llmgw_core.yaml_text import KeyPath, YamlText, parse_yaml

T = TypeVar("T", bound=BaseModel)

MAX_BYTES = 1024 * 1024


def load(model: type[T], path: Path, environ: Mapping[str, str] | None = None) -> T:
    """Read `path` as a `model`, overridden by `environ` (the process's own when None).

    Raises ConfigError, with file, line and column and the nearest known key, for everything that is
    wrong with it, all at once.
    """
    document = parse_yaml(_read(path), file=str(path))
    if not isinstance(document.value, dict | None):
        raise ConfigError("expected keys with values", where=str(path), fix=_known(model))
    overrides = _overrides(model, os.environ if environ is None else environ)
    try:
        settings = model.model_validate(_merge(document.value or {}, overrides))
    except ValidationError as error:
        raise _refused(model, error, document, path, overrides) from None
    return _absolute(settings, path.resolve().parent)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"larger than {MAX_BYTES} bytes", where=str(path))
        return content.decode()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 text (byte {error.start})", where=str(path)) from None


def prefix(model: type[BaseModel]) -> str:
    """How the environment variables of this configuration begin: `LLMGW_SERVER__` for ServerConfig."""
    return f"LLMGW_{model.__name__.removesuffix('Config').upper()}__"


def _overrides(model: type[BaseModel], environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable in sorted(name for name in environ if name.startswith(prefix(model))):
        *parents, last = variable.removeprefix(prefix(model)).lower().split("__")
        level = found
        for parent in parents:
            level = level.setdefault(parent, {})
            if not isinstance(level, dict):
                raise ConfigError("is given both as a value and as a group", where=variable)
        level[last] = _value(environ[variable], variable)
    return found


def _value(text: str, variable: str) -> object:
    return parse_yaml(text, file=variable).value if text.lstrip()[:1] in {"[", "{"} else text


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _refused(
    model: type[BaseModel],
    error: ValidationError,
    document: YamlText,
    path: Path,
    overrides: Mapping[str, Any],
) -> ConfigError:
    problems = []
    for found in error.errors(include_url=False, include_input=False):
        location: KeyPath = found["loc"]
        message, fix = _explain(model, found["type"], found["msg"], location)
        variable = prefix(model) + "__".join(str(part) for part in location).upper()
        if _reaches(overrides, location):
            problems.append(Problem(message, file=variable, fix=fix))
        else:
            line, column = document.place(location) or (0, 0)
            dotted = ".".join(str(part) for part in location)
            problems.append(Problem(message, dotted, str(path), line, column, fix))
    problems.sort(key=lambda problem: (problem.line, problem.column))
    return ConfigError("\n".join(str(problem) for problem in problems))


def _reaches(overrides: Mapping[str, Any], location: KeyPath) -> bool:
    level: object = overrides
    for part in location:
        if not isinstance(level, dict):
            return True
        if part not in level:
            return False
        level = level[part]
    return bool(location)


def _explain(model: type[BaseModel], kind: str, message: str, location: KeyPath) -> tuple[str, str]:
    if kind == "extra_forbidden":
        group = _model_at(model, location[:-1])
        near = get_close_matches(str(location[-1]), group.model_fields, n=1)
        fix = f"did you mean {near[0]!r}?" if near else _known(group)
        return f"unknown key {str(location[-1])!r}", fix
    if kind == "missing":
        return f"{str(location[-1])!r} must be given", ""
    return message.removeprefix("Value error, "), ""


def _model_at(model: type[BaseModel], location: KeyPath) -> type[BaseModel]:
    for part in location:
        field = model.model_fields.get(str(part))
        if field is None or not isinstance(field.annotation, type):
            return model
        if issubclass(field.annotation, BaseModel):
            model = field.annotation
    return model


def _known(model: type[BaseModel]) -> str:
    return "known keys: " + ", ".join(sorted(model.model_fields))


def _absolute(settings: T, directory: Path) -> T:
    changed: dict[str, object] = {}
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, Path):
            changed[name] = directory / value.expanduser()
        elif isinstance(value, BaseModel):
            changed[name] = _absolute(value, directory)
    return settings.model_copy(update=changed)
