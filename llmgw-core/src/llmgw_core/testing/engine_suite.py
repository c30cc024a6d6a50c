"""How the rules of an engine plugin ask it: every shape of replica, on every release that it knows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Any

from pydantic import SecretStr

from llmgw_core.engine_check.build import Built, build
from llmgw_core.engine_check.variety import OPTIONS, Option, Request, requests, shapes
from llmgw_core.plugins import PluginHost
from llmgw_core.spec import (
    Capability,
    Command,
    EngineInfo,
    FlagTable,
    Launch,
    ProbeResponse,
    Probes,
    Readiness,
    Shard,
    Unsupported,
    version_key,
)
from llmgw_core.testing.answers import openai_answer
from llmgw_core.testing.rules import PluginTests

__all__ = ["ADDRESS", "KEY", "NAME", "PORT", "SOURCE", "Answered", "EngineSuite", "digest"]

ADDRESS, PORT = "127.201.202.203", 28657
NAME, SOURCE = "name-of-the-suite", "/models/of-the-suite/model.gguf"
KEY = "the-key-of-the-suite"
"""Values that stand for themselves wherever they turn up."""


@dataclass(frozen=True)
class Answered:
    """One rank that was asked for, and its commands."""

    request: Request
    commands: tuple[Command, ...]

    @property
    def argv(self) -> tuple[str, ...]:
        """The engine's own command line."""
        return self.commands[-1].argv


class EngineSuite(PluginTests):
    """What a suite for an engine says about its plugin, and how its rules ask it."""

    kind = "engine"
    tables: tuple[FlagTable, ...] | None = None
    """Flag tables, where the plugin gives none itself."""
    versions: tuple[str, ...] = ()
    """Releases to ask for besides those of the tables, such as a build for CPUs."""
    engine_args: Mapping[str, Any] = {}
    """Engine arguments without which the plugin refuses every profile."""
    first_party: bool = False
    """Whether it is one of llmgw's own plugins, which may leave no capability open."""
    exempt: Mapping[Capability, str] = {}
    """Capabilities that stay open on purpose, and why."""
    key_on_command_line: str = ""
    """Releases, like "<0.5.4", that take their key in no other way."""

    def answers(self, shard: Shard, probes: Probes) -> Mapping[str, ProbeResponse]:
        """What a good engine answers; for an engine with an API of its own, say it in your suite."""
        asked = {"startup": probes.startup, "readiness": probes.readiness, "inference": probes.inference}
        return {name: openai_answer(probe, shard) for name, probe in asked.items()}

    @cached_property
    def _info(self) -> EngineInfo:
        return self._plugins.engines[self.name]

    @cached_property
    def _tables(self) -> tuple[FlagTable, ...]:
        return tables_of(self._plugins, self.name) if self.tables is None else self.tables

    @cached_property
    def _versions(self) -> tuple[str, ...]:
        """Oldest first, without what runs beside the engine; one that is not known where there is none."""
        known = {table.version for table in self._tables if not table.program} | {*self.versions}
        return tuple(sorted(known, key=lambda version: version_key(self._info, version))) or ("",)

    @property
    def _newest(self) -> FlagTable | None:
        own = [table for table in self._tables if not table.program]
        return max(
            own, key=lambda table: (table.complete, version_key(self._info, table.version)), default=None
        )

    def _commands(self, shard: Shard, launch: Launch) -> tuple[Command, ...]:
        return commands_of(self._plugins, self.name, shard, launch)

    def _probes(self, request: Request) -> Probes | None:
        probes: Probes | None = self._plugins.call_one(
            self.name, "llmgw_engine_probes", shard=request.shard, launch=request.launch
        )
        return probes

    def _ready(self, shard: Shard, responses: Mapping[str, ProbeResponse]) -> Readiness:
        readiness: Readiness = self._plugins.call_one(
            self.name, "llmgw_engine_ready", shard=shard, responses=responses
        )
        return readiness

    def _built(self, version: str) -> Built:
        return built(self.plugin, self.name, version)

    def _requests(self, version: str, shape: Option, *options: Option) -> tuple[Request, ...]:
        """Every rank of a shape, with values that can be told from all others."""
        asked = requests(
            self._info, shape, (self._always, *options), binary=program(self._info), version=version
        )
        return tuple(marked(request) for request in asked)

    @property
    def _always(self) -> Option:
        return Option("as in the suite", {"engine_args": self.engine_args} if self.engine_args else {})

    def _try(self, request: Request) -> Answered | Unsupported:
        try:
            return Answered(request, self._commands(request.shard, request.launch))
        except Unsupported as refusal:
            return refusal

    def _accepts(self, version: str, shape: Option, *options: Option) -> tuple[Answered, ...]:
        """The commands of every rank; none where one of them is refused."""
        tried = [self._try(request) for request in self._requests(version, shape, *options)]
        answered = tuple(one for one in tried if isinstance(one, Answered))
        return answered if len(answered) == len(tried) else ()

    def _everything(self) -> Iterator[Answered]:
        """Every rank of every shape that the plugin takes, on every version."""
        found = (
            one
            for version in self._versions
            for shape in shapes(self._info)
            for one in self._accepts(version, shape)
        )
        first = next(found, None)
        assert first is not None, "it refuses every shape of replica, so nothing was tried"
        yield first
        yield from found

    def _one(self) -> Answered:
        """A replica of one node on the newest version that takes one."""
        singles = [shape for shape in shapes(self._info) if shape.profile["nodes"] == 1]
        for version in reversed(self._versions):
            for shape in singles:
                if accepted := self._accepts(version, shape):
                    return accepted[0]
        raise AssertionError("it refuses every replica of one node, so nothing was tried")

    def _refusal(self, request: Request) -> Unsupported | None:
        tried = self._try(request)
        return tried if isinstance(tried, Unsupported) else None


def changed(request: Request, *, profile: Mapping[str, Any] | None = None, **shard: Any) -> Request:
    """The same rank with other fields of its shard and profile; engine_args are added to those it has."""
    own = request.shard.profile
    fields = dict(profile or {})
    if "engine_args" in fields:
        fields["engine_args"] = {**own.engine_args, **fields["engine_args"]}
    # Validated anew: model_copy would keep a dict that a plugin could change.
    made = own.model_validate({**dict(own), **fields})
    return Request(
        request.label, Shard.model_validate({**dict(request.shard), "profile": made, **shard}), request.launch
    )


def marked(request: Request) -> Request:
    """The rank with the values of the suite, where a rank of its own has them."""
    shard = request.shard
    fields = {"served_name": NAME, "model": NAME}
    if shard.source.startswith("/"):
        fields["source"] = SOURCE
    launch = request.launch
    if launch.key is not None:
        launch = launch.model_copy(update={"key": SecretStr(KEY)})
    own = {"address": ADDRESS, "http_port": PORT} if shard.world == 1 else {}
    return Request(request.label, shard.model_copy(update={**fields, **own}), launch)


def program(info: EngineInfo) -> tuple[str, ...]:
    """An argv prefix as an agent would find it."""
    if info.binary.names:
        return (f"/opt/engine/bin/{info.binary.names[0]}",)
    return tuple(part.replace("{python}", "/opt/engine/bin/python") for part in info.binary.fallback)


def tables_of(plugins: PluginHost, name: str) -> tuple[FlagTable, ...]:
    """The tables that a plugin gives; none where it does not have the hook."""
    for outcome in plugins.call_each("llmgw_engine_flags"):
        if outcome.plugin == name:
            if outcome.error is not None:
                raise outcome.error
            tables: tuple[FlagTable, ...] = outcome.value
            return tables
    return ()


def commands_of(plugins: PluginHost, name: str, shard: Shard, launch: Launch) -> tuple[Command, ...]:
    """The commands of a rank. Raises Unsupported, or PluginFailed for a plugin that is broken."""
    commands: tuple[Command, ...] = plugins.call_one(
        name, "llmgw_engine_commands", shard=shard, launch=launch
    )
    return commands


@lru_cache(maxsize=64)  # several rules look at the same commands, and every rule has a suite of its own
def built(plugin: ModuleType, name: str, version: str) -> Built:
    """The widest commands of a plugin, as `engine-check` asks for them."""
    plugins = PluginHost.of(plugin)
    info = plugins.engines[name]
    return build(
        info,
        lambda shard, launch: commands_of(plugins, name, shard, launch),
        binary=program(info),
        version=version,
    )


def digest(plugin: ModuleType, name: str, version: str) -> str:
    """Stands for every command that a plugin gives, so that two processes can compare theirs."""
    made = built(plugin, name, version).made
    shown = [(one.label, one.command.name, one.command.argv, sorted(one.command.env.items())) for one in made]
    return hashlib.sha256(repr(shown).encode()).hexdigest()


_BY_LABEL = {option.label: option for option in OPTIONS}


def option(label: str) -> Option:
    """One of the options of `engine_check`, by its label."""
    return _BY_LABEL[label]
