"""One call of one hook of one plugin: isolated from the program, attributed, its result's type checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import ValidationError

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
        # A chained pydantic error would quote its input in the traceback after all.
        cause = None if isinstance(error, ValidationError) else error
        raise PluginFailed(plugin, hook, describe(error)) from cause
    if not _fits(value, _declared(hook)):
        wanted = HOOKS[hook].__annotations__["return"]
        raise PluginFailed(plugin, hook, f"it gave a {_shape(value)}, wanted {wanted}")
    return value


@cache
def _declared(hook: str) -> Any:
    return get_type_hints(HOOKS[hook])["return"]


def _fits(value: object, declared: Any) -> bool:
    """Whether `value` is of a type that hooks declare. pydantic would also take a dict for a model."""
    origin, inner = get_origin(declared), get_args(declared)
    if origin is UnionType:
        return any(_fits(value, one) for one in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, inner[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(name, inner[0]) and _fits(item, inner[1]) for name, item in value.items()
        )
    return isinstance(value, declared)


def _shape(value: object) -> str:
    """The type of a value and of what it holds, never the value itself: it may be a key."""
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else ()
    kinds = sorted({type(item).__name__ for item in inside})
    return f"{type(value).__name__} of {' and '.join(kinds)}" if kinds else type(value).__name__


def _places(error: ValidationError) -> str:
    problems = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
