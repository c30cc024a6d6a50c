"""The error tree: one class per condition, grouped by who must act.

LlmgwError                    message, where, fix; what a person sees is never a traceback
├── ConfigError               the operator's file, flag or environment is wrong        (exit 2)
│   └── CatalogError          every problem of a catalog at once
├── PluginError               a plugin author must act
│   ├── PluginRefused         the loader did not take a plugin; says why
│   ├── PluginFailed          a hook of a plugin raised, or gave a wrong type
│   └── Unsupported           a profile asks for what this engine (version) cannot do
├── StateDirError             the state directory cannot be used                       (exit 2)
│   └── StateDirHeld          another process holds it; says which
├── PortInUse                 an address is taken; says by whom where that can be seen (exit 2)
├── StoreError                the database
│   ├── StoreUnavailable      it does not answer; nothing was changed
│   ├── StoreNewer            its schema was made by a newer llmgw
│   └── Fenced                another leader holds the lease; nothing was written
├── StreamError               a stream between agent, gateway and control plane
│   ├── StreamEnded           it is gone, with the reason
│   ├── StreamRefused         the other side said no, with code and fix
│   └── WireError             a message that breaks the contract of `spec.wire`
└── RequestFailed             an admin API call was answered with an error             (exit 1)
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CatalogError",
    "ConfigError",
    "Fenced",
    "LlmgwError",
    "NotFound",
    "PluginError",
    "PluginFailed",
    "PluginRefused",
    "PortInUse",
    "Problem",
    "RequestFailed",
    "StateDirError",
    "StateDirHeld",
    "StoreError",
    "StoreNewer",
    "StoreUnavailable",
    "StreamEnded",
    "StreamError",
    "StreamRefused",
    "Unsupported",
    "WireError",
]


class LlmgwError(Exception):
    """Base of every error that llmgw raises on purpose.

    `message` says what is wrong, `where` names the place (file:line, node, replica), `fix` says what
    to do next. `exit_code` is what the command line exits with.
    """

    exit_code = 1

    def __init__(self, message: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head} ({self.fix})" if self.fix else head


class ConfigError(LlmgwError):
    """Raised when a configuration file, a flag or an environment variable cannot be accepted."""

    exit_code = 2


@dataclass(frozen=True)
class Problem:
    """One thing wrong in an operator's file: lines and columns count from 1; 0 means unknown."""

    message: str
    path: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    fix: str = ""
    severity: str = "error"  # or "warning"

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        head = ": ".join(part for part in (place, self.path, self.message) if part)
        return f"{head} ({self.fix})" if self.fix else head


class CatalogError(ConfigError):
    """Raised when a catalog is refused; `problems` has every error of the file, in file order."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class PluginError(LlmgwError):
    """Base of what a plugin's author has to act on."""


class PluginRefused(PluginError):
    """Raised when a plugin cannot be loaded. `reason` is one sentence (or a few lines) for its author."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"plugin {name} refused: {reason}")
        self.name = name
        self.reason = reason


class PluginFailed(PluginError):
    """Raised when a hook of a loaded plugin raised or returned a value of the wrong type."""

    def __init__(self, plugin: str, hook: str, reason: str) -> None:
        super().__init__(f"plugin {plugin}: {hook} failed: {reason}")
        self.plugin = plugin
        self.hook = hook
        self.reason = reason


class Unsupported(PluginError):
    """Raised by an engine plugin when a profile asks for what the engine, or this version, cannot do."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class StateDirError(LlmgwError):
    """Raised when the state directory cannot be made, read or written."""

    exit_code = 2


class StateDirHeld(StateDirError):
    """Raised when another live process holds the lock of a state directory."""


class PortInUse(LlmgwError):
    """Raised when a listening address is already taken."""

    exit_code = 2


class StoreError(LlmgwError):
    """Base of what goes wrong with the database."""


class StoreUnavailable(StoreError):
    """Raised when the database does not answer, or cannot be written; nothing was changed.

    `code` is what the APIs answer with status 503: `store_unavailable` or `storage_full`.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "store_unavailable",
        where: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(message, where=where, fix=fix)
        self.code = code


class StoreNewer(StoreError):
    """Raised when the database was made by a newer llmgw than this one."""

    exit_code = 2


class Fenced(StoreError):
    """Raised when a write of a leader is refused because its epoch is no longer the store's."""


class StreamError(LlmgwError):
    """Base of what goes wrong on a stream between two llmgw processes."""


class StreamEnded(StreamError):
    """Raised when a stream is gone; `message` has the reason, as far as it is known."""


class StreamRefused(StreamError):
    """Raised when the other side refused the stream."""

    def __init__(self, code: str, message: str, *, fix: str | None = None) -> None:
        super().__init__(message, fix=fix)
        self.code = code


class WireError(StreamError):
    """Raised when a message cannot be decoded: not JSON, too large, or fields of the wrong type."""


class RequestFailed(LlmgwError):
    """Raised by the admin client when the control plane answers with an error or not at all."""


class NotFound(RequestFailed):
    """Raised when an admin API call names a model, replica or key that is not there."""
