"""One call of one hook of one plugin: isolated from the program, attributed, its result's type checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from llmgw_core.spec import PluginFailed, Unsupported, hookspecs

__all__ = ["HOOKS", "call_hook", "describe"]

HOOKS: Mapping[str, Callable[..., object]] = {
    name: getattr(hookspecs, name) for name in hookspecs.__all__ if name.startswith("llmgw_")
}
"""Every hook of the contract, by name."""
_LONGEST_TEXT = 2000


def describe(error: BaseException) -> str:
    """Type and text of what a plugin raised, cut to a length that a table can show.

    A pydantic error quotes its input, and the input of a Command may hold a key: only places and
    messages are kept of it.
    """
    text = _places(error) if isinstance(error, ValidationError) else str(error)
    return f"{type(error).__name__}: {text}"[:_LONGEST_TEXT].removesuffix(": ")


def call_hook(plugin: str, hook: str, function: Callable[..., object], *arguments: object) -> Any:
    """What the plugin's `function` gives for `hook`.

    Raises PluginFailed for whatever it raises and for a result of another type than the hook declares.
    Unsupported passes through, and so do KeyboardInterrupt and cancellation.
    """
    try:
        value = function(*arguments)
    except Unsupported:
        raise
    except (Exception, SystemExit) as error:
        raise PluginFailed(plugin, hook, describe(error)) from error
    return _checked(plugin, hook, value)


def _checked(plugin: str, hook: str, value: object) -> Any:
    # A read-only mapping is as good as a dict, but pydantic's strict mode takes only dicts.
    plain = dict(value) if isinstance(value, Mapping) else value
    try:
        return _adapter(hook).validate_python(plain, strict=True)
    except ValidationError as error:
        wanted = HOOKS[hook].__annotations__["return"]
        reason = f"it gave a {type(value).__name__}, wanted {wanted}: {_places(error)}"
        raise PluginFailed(plugin, hook, reason) from None


@cache
def _adapter(hook: str) -> TypeAdapter[Any]:
    return TypeAdapter(get_type_hints(HOOKS[hook])["return"])


def _places(error: ValidationError) -> str:
    problems = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(
        ": ".join(part for part in (".".join(map(str, problem["loc"])), problem["msg"]) if part)
        for problem in problems
    )
