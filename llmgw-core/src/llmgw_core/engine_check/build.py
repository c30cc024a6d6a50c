"""The widest commands that a plugin gives: every shape with each option alone, and with all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from llmgw_core.engine_check.variety import OPTIONS, Option, Request, requests, shapes
from llmgw_core.spec import Command, EngineInfo, Launch, Shard, Unsupported

__all__ = ["Built", "Commands", "Made", "Refusal", "build"]

Commands = Callable[[Shard, Launch], tuple[Command, ...]]
"""Gives the commands of a shard. Raises Unsupported, or PluginFailed for a plugin that is broken."""


@dataclass(frozen=True)
class Made:
    """One process of one rank. `engine` is False for a sidecar.

    `chosen` are values that stand for an operator's, which a plugin may pass on whether the engine knows them
    or not.
    """

    label: str
    command: Command
    binary: tuple[str, ...]
    engine: bool
    chosen: frozenset[str | None] = frozenset()

    @property
    def arguments(self) -> tuple[str, ...]:
        """What follows the program."""
        argv = self.command.argv
        whole = argv[: len(self.binary)] == self.binary
        rest = argv[len(self.binary) :] if whole else argv[1:]
        # Of an interpreter the program is a module; another program may have a flag called -m.
        interpreter = not whole or PurePosixPath(self.binary[-1]).name.startswith("python")
        return rest[2:] if interpreter and rest[:1] == ("-m",) else rest

    def begins_with(self, program: str) -> bool:
        """Whether this is a command of `program`, such as `ray start`."""
        words = (PurePosixPath(self.command.argv[0]).name, *self.command.argv[1:])
        wanted = tuple(program.split())
        return bool(wanted) and words[: len(wanted)] == wanted


@dataclass(frozen=True)
class Refusal:
    """A combination that the plugin does not support, and why."""

    label: str
    field: str
    reason: str


@dataclass(frozen=True)
class Built:
    """What a plugin gave and what it refused."""

    made: tuple[Made, ...]
    refused: tuple[Refusal, ...]


def build(info: EngineInfo, commands: Commands, *, binary: tuple[str, ...], version: str) -> Built:
    """Ask for everything. Raises PluginFailed for a plugin that fails in another way than by refusing."""
    made: list[Made] = []
    refused: list[Refusal] = []

    def ask(shape: Option, *options: Option) -> bool:
        found = _ask(commands, requests(info, shape, options, binary=binary, version=version))
        if isinstance(found, Refusal):
            refused.append(found)
            return False
        made.extend(found)
        return True

    for shape in shapes(info):
        if ask(shape):
            _widen(shape, ask)
    return Built(tuple(made), tuple(refused))


def _widen(shape: Option, ask: Callable[..., bool]) -> None:
    taken = [option for option in OPTIONS if ask(shape, option)]
    # Of several values of one field the last wins, so the combination is as wide as one command can be.
    together = [option for option in taken if not option.shard and "key" not in option.launch]
    if len(together) > 1:
        ask(shape, *together)


def _ask(commands: Commands, asked: Iterator[Request]) -> tuple[Made, ...] | Refusal:
    made: list[Made] = []
    for request in asked:
        try:
            given = commands(request.shard, request.launch)
        except Unsupported as error:
            return Refusal(request.label, error.field, error.reason)
        last = len(given) - 1
        profile = request.shard.profile
        chosen = frozenset({profile.quantization, profile.kv_cache_dtype})
        made += [
            Made(request.label, command, request.launch.binary, engine=number == last, chosen=chosen)
            for number, command in enumerate(given)
        ]
    return tuple(made)
