"""PluginHost: loads plugins with a reason for every refusal, and calls their hooks one plugin at a time.

The only module that uses pluggy, besides the markers in `spec.hookspecs`. pluggy declares, finds and keeps
the hooks; loading and calling are ours, because its loader skips a second distribution of one name in
silence, and its call loop ends all plugins' calls with the first that raises.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Any

import pluggy

from llmgw_core.plugin_call import call_hook, describe
from llmgw_core.plugin_check import (
    Implementation,
    form_fault,
    hooks_fault,
    info_fault,
    mismatch,
    unmarked_fault,
)
from llmgw_core.plugin_discovery import ENVIRONMENT, Found, discover, found_of, given, limited, name_taken
from llmgw_core.spec import (
    PROJECT,
    EngineInfo,
    PluginError,
    PluginFailed,
    PluginInfo,
    PluginRefused,
    Unsupported,
    hookspecs,
)

__all__ = ["Loaded", "Outcome", "PluginHost", "Refused"]


@dataclass(frozen=True)
class Loaded:
    """A plugin that is in use, and the distribution that it came with."""

    info: PluginInfo
    dist: str
    version: str


@dataclass(frozen=True)
class Refused:
    """A plugin that is not in use. `reason` is for its author or the operator; it may have several lines."""

    name: str
    dist: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What one plugin gave for a hook: a value of the declared type, or the error that it ended with."""

    plugin: str
    value: Any = None
    error: PluginError | None = None


class PluginHost:
    """The plugins of this process. Plugins are registered, listed and called in the order of their names."""

    def __init__(self, found: Iterable[Found]) -> None:
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._loaded: dict[str, Loaded] = {}
        self._engines: dict[str, EngineInfo] = {}
        self._refused: list[Refused] = []
        claims = sorted(found, key=lambda one: (one.name, one.dist))
        taken = Counter(one.name for one in claims)
        for one in claims:
            if taken[one.name] > 1:
                self._refuse(one, name_taken(one, claims))
            else:
                self._take(one)

    @classmethod
    def load(cls, entry_points: Iterable[EntryPoint] | None = None, only: str | None = None) -> PluginHost:
        """The host of every installed plugin, or of the `entry_points` given; never raises for a bad one.

        `only` limits by name which plugins are imported, as the environment variable LLMGW_PLUGINS does
        where it is None.
        """
        everything = discover(PROJECT) if entry_points is None else map(found_of, entry_points)
        limit = os.environ.get(ENVIRONMENT) if only is None else only
        return cls(everything if limit is None else limited(everything, limit))

    @classmethod
    def of(cls, *plugins: object) -> PluginHost:
        """A host of exactly these plugin objects. Raises PluginRefused for the first that is not taken."""
        host = cls(given(plugin) for plugin in plugins)
        for refused in host.refused:
            raise PluginRefused(refused.name, refused.reason)
        return host

    @property
    def plugins(self) -> tuple[Loaded, ...]:
        """Every plugin in use."""
        return tuple(self._loaded.values())

    @property
    def refused(self) -> tuple[Refused, ...]:
        """Every plugin that was found, or asked for, and is not in use."""
        return tuple(self._refused)

    @property
    def engines(self) -> Mapping[str, EngineInfo]:
        """The engines of the plugins in use, by name."""
        return MappingProxyType(self._engines)

    def call_one(self, plugin: str, hook: str, /, **arguments: object) -> Any:
        """What `plugin` gives for `hook`; `arguments` are all that the hook has, by name.

        Raises PluginFailed when the plugin is not loaded, lacks the hook, raises, or gives a value of
        the wrong type. Unsupported passes through.
        """
        implementations = {one.plugin_name: one for one in self._implementations(hook, arguments)}
        if plugin not in implementations:
            raise PluginFailed(plugin, hook, self._absence(plugin))
        return _call(implementations[plugin], hook, arguments)

    def call_each(self, hook: str, /, **arguments: object) -> tuple[Outcome, ...]:
        """What each plugin that has `hook` gives; one that fails has its error and stops no other."""
        return tuple(_outcome(one, hook, arguments) for one in self._implementations(hook, arguments))

    def has(self, hook: str) -> bool:
        """Whether any plugin in use has `hook`."""
        caller = getattr(self._manager.hook, hook, None)
        return caller is not None and bool(caller.get_hookimpls())

    def _take(self, found: Found) -> None:
        try:
            self._admit(found, found.load())
        except PluginRefused as error:
            self._refuse(found, error.reason)
        except (Exception, SystemExit) as error:
            self._refuse(found, f"it cannot be loaded: {describe(error)}")

    def _refuse(self, found: Found, reason: str) -> None:
        self._refused.append(Refused(name=found.name, dist=found.dist, reason=reason))

    def _admit(self, found: Found, plugin: object) -> None:
        """Check, register and list one plugin. Raises PluginRefused and leaves nothing behind."""
        name = found.name
        implementations = {one.hook: one for one in self._marked(plugin)}
        info = _plugin_info(found, plugin, implementations)
        for one in implementations.values():
            _require(name, form_fault(one))
        engine = self._register(name, plugin, info.kind, implementations)
        self._loaded[name] = Loaded(info=info, dist=found.dist, version=found.version)
        if engine is not None:
            self._engines[name] = engine

    def _register(
        self, name: str, plugin: object, kind: str, implementations: Mapping[str, Implementation]
    ) -> EngineInfo | None:
        try:
            self._manager.register(plugin, name)
            self._manager.check_pending()
            _require(name, hooks_fault(kind, implementations))
            return _engine_info(name, implementations) if kind == "engine" else None
        except (PluginRefused, pluggy.PluginValidationError) as error:
            # Otherwise its hooks stay, and check_pending would blame the next plugin for them.
            self._manager.unregister(name=name)
            if isinstance(error, PluginRefused):
                raise
            # pluggy prints only the plugin's side of a mismatch.
            raise PluginRefused(name, mismatch(implementations.values()) or str(error)) from error

    def _marked(self, plugin: object) -> Iterator[Implementation]:
        for attribute in dir(plugin):
            options = self._manager.parse_hookimpl_opts(plugin, attribute)
            if options is not None:
                yield Implementation(attribute, getattr(plugin, attribute), options)

    def _implementations(self, hook: str, arguments: Mapping[str, object]) -> list[pluggy.HookImpl]:
        """In the order of the plugins' names. Raises TypeError for a caller that does not know the hook."""
        caller = getattr(self._manager.hook, hook, None)
        if caller is None or caller.spec is None or set(caller.spec.argnames) != arguments.keys():
            raise TypeError(f"{hook} is not a hook with the arguments {', '.join(arguments) or '(none)'}")
        # Without tryfirst and trylast, which are refused, they are in the order of registration.
        implementations: list[pluggy.HookImpl] = caller.get_hookimpls()
        return implementations

    def _absence(self, plugin: str) -> str:
        for refused in self._refused:
            if refused.name == plugin:
                return f"the plugin is not loaded: {refused.reason}"
        if plugin in self._loaded:
            return "the plugin does not have this hook"
        return "no such plugin is loaded; `llmgw plugins` lists them"


def _call(implementation: pluggy.HookImpl, hook: str, arguments: Mapping[str, object]) -> Any:
    wanted = (arguments[name] for name in implementation.argnames)
    return call_hook(implementation.plugin_name, hook, implementation.function, *wanted)


def _outcome(implementation: pluggy.HookImpl, hook: str, arguments: Mapping[str, object]) -> Outcome:
    try:
        return Outcome(implementation.plugin_name, value=_call(implementation, hook, arguments))
    except PluginError as error:
        return Outcome(implementation.plugin_name, error=error)


def _plugin_info(found: Found, plugin: object, implementations: Mapping[str, Implementation]) -> PluginInfo:
    """Who the plugin says it is: asked first, since another HOOK_API explains every other fault."""
    name = found.name
    _require(name, unmarked_fault(plugin, implementations.values()))
    own = implementations.get("llmgw_plugin_info")
    if own is None:
        raise PluginRefused(name, "it has no llmgw_plugin_info hook; every plugin says who it is")
    _require(name, form_fault(own) or mismatch([own]))
    info: PluginInfo = _ask(name, own)
    _require(name, info_fault(info, name, found.dist))
    return info


def _engine_info(name: str, implementations: Mapping[str, Implementation]) -> EngineInfo:
    info: EngineInfo = _ask(name, implementations["llmgw_engine_info"])
    if info.name != name:
        raise PluginRefused(
            name, f"llmgw_engine_info says name={info.name!r}; an engine bears its plugin's name, {name!r}"
        )
    return info


def _ask(name: str, implementation: Implementation) -> Any:
    try:
        return call_hook(name, implementation.hook, implementation.function)
    except (PluginFailed, Unsupported) as error:
        raise PluginRefused(name, f"{implementation.hook} failed: {error.reason}") from error


def _require(name: str, fault: str | None) -> None:
    if fault is not None:
        raise PluginRefused(name, fault)
