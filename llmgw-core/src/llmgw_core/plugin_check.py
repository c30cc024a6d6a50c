"""What is wrong with a plugin, if anything. Every check gives a reason, for the plugin's author, or None."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from llmgw_core.plugin_call import HOOKS
from llmgw_core.spec import HOOK_API, PluginInfo

__all__ = [
    "SUPPORTED_APIS",
    "Implementation",
    "form_fault",
    "hooks_fault",
    "info_fault",
    "mismatch",
    "unmarked_fault",
]

SUPPORTED_APIS = frozenset({HOOK_API})
"""What `PluginInfo.api` may say; holds two numbers for one minor release after each change of the API."""

_PREFIXES = {
    "engine": "llmgw_engine_",
    "accelerator": "llmgw_accelerator_",
    "fabric": "llmgw_fabric_",
    "scoring": "llmgw_placement_",
}
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "engine": ("llmgw_engine_info", "llmgw_engine_commands", "llmgw_engine_probes", "llmgw_engine_ready"),
    "accelerator": ("llmgw_accelerator_discover",),
    "fabric": ("llmgw_fabric_discover", "llmgw_fabric_env"),
    "scoring": (),
}
_OPTIONS = {
    "hookwrapper": "is a hook wrapper; a plugin may not wrap the hooks of others",
    "wrapper": "is a hook wrapper; a plugin may not wrap the hooks of others",
    "tryfirst": "asks to be called first; plugins are called in the order of their names",
    "trylast": "asks to be called last; plugins are called in the order of their names",
    "specname": "is given as an implementation of another name; name the function as the hook",
}


@dataclass(frozen=True)
class Implementation:
    """A function of a plugin that is marked with `@hookimpl`, and the marker's options."""

    hook: str
    function: Callable[..., object]
    options: Mapping[str, object]


def form_fault(implementation: Implementation) -> str | None:
    """Why a hook function cannot be called as every other: its marker's options, or its form."""
    return _option_fault(implementation) or _function_fault(implementation)


def mismatch(implementations: Iterable[Implementation]) -> str | None:
    """The first hook that does not exist or has arguments of its own; both signatures are printed."""
    faults = (
        _unknown_hook(one.hook) if one.hook not in HOOKS else _signature_fault(one) for one in implementations
    )
    return next((fault for fault in faults if fault is not None), None)


def unmarked_fault(plugin: object, implementations: Iterable[Implementation]) -> str | None:
    """Why a function that bears a hook's name would never be called: it lacks the marker."""
    marked = {implementation.hook for implementation in implementations}
    for hook in HOOKS:
        if hook not in marked and inspect.isroutine(getattr(plugin, hook, None)):
            return f"{hook} is defined but not marked; put @hookimpl of llmgw_core.spec above it"
    return None


def info_fault(info: PluginInfo, name: str, dist: str) -> str | None:
    """Why a plugin that says `info` of itself cannot stand under the entry point `name`."""
    if info.name != name:
        return f"llmgw_plugin_info says name={info.name!r}, but its entry point is {name!r}; make them equal"
    if info.api in SUPPORTED_APIS:
        return None
    supported = " or ".join(map(str, sorted(SUPPORTED_APIS)))
    head = f"it is written for HOOK_API {info.api}, this llmgw-core supports {supported}; "
    if info.api > max(SUPPORTED_APIS):
        return head + f"install a newer llmgw-core, or an older release of {dist}"
    return head + f"install a newer release of {dist}, or an older llmgw-core"


def hooks_fault(kind: str, hooks: Iterable[str]) -> str | None:
    """Why a plugin of `kind` with these hooks is not whole, or is more than one plugin."""
    own = set(hooks) - {"llmgw_plugin_info"}
    foreign = sorted(hook for hook in own if not hook.startswith(_PREFIXES[kind]))
    if foreign:
        return f"it is of kind {kind} but has {', '.join(foreign)}; give that an entry point of its own"
    missing = [hook for hook in _REQUIRED[kind] if hook not in own]
    if missing:
        return f"it is of kind {kind} but lacks {', '.join(missing)}"
    return None if own else f"it is of kind {kind} but has none of the hooks {_PREFIXES[kind]}*"


def _unknown_hook(hook: str) -> str:
    near = difflib.get_close_matches(hook, HOOKS, n=1)
    return f"{hook} is not a hook of llmgw" + (f"; did you mean {near[0]}?" if near else "")


def _option_fault(implementation: Implementation) -> str | None:
    for option, sentence in _OPTIONS.items():
        if implementation.options.get(option):
            return f"{implementation.hook} {sentence} (remove {option} from @hookimpl)"
    return None


def _function_fault(implementation: Implementation) -> str | None:
    hook, function = implementation.hook, implementation.function
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return f"{hook} is async; hooks are synchronous, write a plain def"
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            return f"{hook} takes {parameter}; only plain arguments of the hook are passed"
        if parameter.default is not inspect.Parameter.empty:
            # pluggy 1.6 leaves such an argument at its default, 1.7 passes the caller's value.
            return f"{hook} gives {parameter.name} a default; the host passes every argument, remove it"
    return None


def _signature_fault(implementation: Implementation) -> str | None:
    spec = HOOKS[implementation.hook]
    known = inspect.signature(spec).parameters
    strange = [name for name in inspect.signature(implementation.function).parameters if name not in known]
    if not strange:
        return None
    hook = implementation.hook
    return (
        f"{hook} has arguments that the hook does not have: {', '.join(strange)}\n"
        f"  the hook:   {hook}{_signature_text(spec)}\n"
        f"  the plugin: {hook}{_signature_text(implementation.function)}"
    )


def _signature_text(function: Callable[..., object]) -> str:
    # Postponed annotations are strings, which inspect prints in quotes.
    return str(inspect.signature(function)).replace("'", "")
