"""Gets an engine's own help and version: from a file, or by running its program with a time limit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from llmgw_core.spec.engine import BinarySpec, EngineInfo
from llmgw_core.spec.errors import ConfigError
from llmgw_core.spec.help_text import MAX_HELP_CHARS

__all__ = ["Help", "from_file", "from_program"]

_LEAST_TIMEOUT = 60.0
"""Seconds for a help: a Python engine imports half of its packages for it."""
_QUIET = {"NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat"}


@dataclass(frozen=True)
class Help:
    """A help text, and where it is from. `version` is None where it was not asked."""

    text: str
    origin: str
    binary: tuple[str, ...]
    version: str | None = None


def from_file(path: Path, info: EngineInfo) -> Help:
    """The help in a file. Raises ConfigError when it cannot be read."""
    try:
        with path.open("rb") as opened:
            content = opened.read(4 * MAX_HELP_CHARS)
    except OSError as error:
        raise ConfigError(f"the help cannot be read: {error.strerror}", where=str(path)) from None
    binary = info.binary.names[:1] or _fallback(info) or (info.name,)
    return Help(content.decode("utf-8", "replace"), path.name, binary)


def from_program(path: Path | None, info: EngineInfo, *, ask_version: bool) -> Help:
    """The help that the program prints: `path`, or what is found as an agent would find it.

    Raises ConfigError when there is no program, or it gives no help in time.
    """
    binary = _found(path, info)
    spec = info.binary
    timeout = max(_LEAST_TIMEOUT, spec.version_timeout)
    text = _output((*binary, *spec.help_args), timeout)
    origin = " ".join((*binary, *spec.help_args))
    return Help(text, origin, binary, _version(binary, spec, timeout) if ask_version else None)


def _found(path: Path | None, info: EngineInfo) -> tuple[str, ...]:
    if path is not None:
        return (str(path),)
    for name in info.binary.names:
        if found := shutil.which(name):
            return (found,)
    if fallback := _fallback(info):
        return fallback
    names = " or ".join(info.binary.names) or info.title
    raise ConfigError(f"{names} is not on PATH", fix="give --binary PATH or --help-file FILE")


def _fallback(info: EngineInfo) -> tuple[str, ...]:
    return tuple(sys.executable if item == "{python}" else item for item in info.binary.fallback)


def _version(binary: Sequence[str], spec: BinarySpec, timeout: float) -> str:
    found = re.search(spec.version_pattern, _output((*binary, *spec.version_args), timeout))
    if found is None:
        message = "the program does not say its version as its plugin expects it"
        raise ConfigError(message, where=binary[0], fix="give --engine-version")
    return found[1]


def _output(argv: Sequence[str], timeout: float) -> str:
    """What a program prints; on stderr, where stdout has nothing. Raises ConfigError."""
    where = " ".join(argv)
    try:
        done = subprocess.run(
            argv,
            env={**os.environ, **_QUIET},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"no answer within {timeout:g} seconds", where=where) from None
    except OSError as error:
        raise ConfigError(f"it cannot be run: {error.strerror}", where=where) from None
    if done.returncode:
        last = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()[-1:]
        raise ConfigError(f"exit code {done.returncode}{': ' + last[0] if last else ''}", where=where)
    return (done.stdout if done.stdout.strip() else done.stderr).decode("utf-8", "replace")
