"""Rules about the commands of an engine plugin: what they say, for whom, and what they refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from llmgw_core.engine_check.check import FlagRow, check
from llmgw_core.engine_check.variety import shapes
from llmgw_core.spec import Command, Profile, Unsupported, parse_version_range
from llmgw_core.testing.engine_suite import (
    ADDRESS,
    KEY,
    NAME,
    PORT,
    SOURCE,
    Answered,
    EngineSuite,
    changed,
)
from llmgw_core.testing.rules import rule

__all__ = ["CommandRules", "refusal_faults", "said"]

_ODD_VERSIONS = ("", "0", "9999.0.0", "unknown", "1.2.3.dev4+g0123abc", "٣")
_FIELDS = frozenset(Profile.model_fields) | {"source", "name", "kind"}
_GROUPS = re.compile(r"(engine_args|env|lora)\..+", re.DOTALL)
_LIMITS = (1000, 3000)
_WISHES = (
    ("quantization", "fp8"),
    ("kv_cache_dtype", "fp8"),
    ("lora", {"adapter": "/models/adapter"}),
    ("launch_mode", "of-the-suite"),
)


class CommandRules(EngineSuite):
    """Every rank of every shape is started as it has to be, or refused."""

    @rule
    def test_every_flag_is_there(self) -> None:
        """A flag that a release does not have ends the engine when a GPU already waits for it."""
        for row in self._rows():
            assert row.state != "missing", f"{row.flag}: {row.message} ({_where(row)})"

    @rule
    def test_every_flag_has_its_values(self) -> None:
        """As many values as the release takes, permitted ones, and each flag once."""
        for row in self._rows():
            assert row.state != "wrong", f"{row.flag}: {row.message} ({_where(row)})"

    @rule
    def test_its_commands_are_well_formed(self) -> None:
        """The agent starts what it is given: sidecars first, the engine last, every wait with an end."""
        for one in self._everything():
            for fault in _faults(one):
                raise AssertionError(f"{one.request.label}: {fault}")
            if self._probes(one.request) is not None:
                binary = one.request.launch.binary
                assert one.argv[: len(binary)] == binary, f"{one.request.label}: it starts {one.argv[0]}"

    @rule
    def test_it_listens_where_it_was_told(self) -> None:
        """Model, name, address and port of a shard are said once, so that nothing else can win."""
        one = self._one()
        for what, value in (("source", SOURCE), ("name", NAME), ("address", ADDRESS), ("port", str(PORT))):
            times = len(said(one.argv, value))
            if not times:
                times = sum(value == text for text in one.commands[-1].env.values())
            assert times == 1, f"{one.request.label}: its {what} is said {times} times"

    @rule
    def test_the_key_is_nowhere_to_be_read(self) -> None:
        """Every user of a machine can read command lines, and logs are kept for long."""
        for one in self._everything():
            where = one.request.label
            version = one.request.launch.version
            for command in one.commands:
                shown = [text for text in _shown(command) if KEY in text]
                bare = [text for text in command.argv if KEY in text]
                allowed = len(bare) if self._only_on_the_command_line(version) else 0
                assert len(shown) <= allowed, f"{where}: the key can be read where {command.name} is started"
                for path in command.secret_files:
                    own = PurePosixPath(path).parent == PurePosixPath(one.request.launch.work_dir)
                    assert own, f"{where}: {path} is not in the shard's own directory"
            if self._probes(one.request) is not None:
                assert KEY in _whole(one.commands), f"{where}: the engine is not told its key"

    @rule
    def test_limits_are_passed_exactly(self) -> None:
        """A limit that is rounded, ignored or off by one is found by a user's request."""
        found = [
            self._try(changed(self._one().request, profile={"max_model_len": limit})) for limit in _LIMITS
        ]
        if any(isinstance(one, Unsupported) for one in found):
            fields = {one.field for one in found if isinstance(one, Unsupported)}
            assert fields == {"max_model_len"}, f"it is refused as {', '.join(sorted(fields))}"
            return
        small, large = (_texts(one) for one in found if isinstance(one, Answered))
        assert len(small) == len(large), "max_model_len changes how many arguments there are"
        differing = [pair for pair in zip(small, large, strict=True) if pair[0] != pair[1]]
        assert differing, "max_model_len changes nothing"
        for one, other in differing:
            scaled = [_number(text) for text in (one, other)]
            assert _in_proportion(scaled), f"of {_LIMITS[0]} and {_LIMITS[1]} it makes {one} and {other}"

    @rule
    def test_no_wish_is_dropped(self) -> None:
        """What a profile asks for is in the command, or is refused; it is never left out in silence."""
        plain = self._one()
        for field, value in _WISHES:
            asked = self._try(changed(plain.request, profile={field: value}))
            if isinstance(asked, Answered):
                assert _texts(asked) != _texts(plain), f"{field} changes nothing, and is not refused"

    @rule
    def test_no_variable_overrides_its_own(self) -> None:
        """A variable of the profile's that the plugin sets too is refused, or stays the operator's."""
        one = self._one()
        command = one.commands[-1]
        for name in sorted({*command.env, *command.secret_env}):
            tried = self._try(changed(one.request, profile={"env": {name: "of-the-suite"}}))
            if isinstance(tried, Unsupported):
                assert tried.field == f"env.{name}", f"the operator's {name} is refused as {tried.field}"
                continue
            last = tried.commands[-1]
            kept = name not in last.secret_env and last.env.get(name, "of-the-suite") == "of-the-suite"
            assert kept, f"the operator's {name} is dropped in silence"

    @rule
    def test_ranks_refuse_alike(self) -> None:
        """A replica of which one rank is refused on its node waits for it until a limit ends it."""
        for version in self._versions:
            for shape in shapes(self._info):
                tried = [self._refusal(request) for request in self._requests(version, shape)]
                fields = {one.field if one else "" for one in tried}
                assert len(fields) == 1, f"{shape.label}: refused for some ranks only, as {fields - {''}}"

    @rule
    def test_a_refusal_names_its_field(self) -> None:
        """A refusal reaches the operator as it is: with a field of the catalog, and a reason."""
        for version in self._versions:
            for refused in self._built(version).refused:
                for fault in refusal_faults(refused.field, refused.reason):
                    raise AssertionError(f"{refused.label}: {fault}")

    @rule
    def test_any_version_is_answered(self) -> None:
        """A node may report a release that nobody has seen, and a catalog is checked without any."""
        for version in _ODD_VERSIONS:
            for shape in shapes(self._info):
                for request in self._requests(version, shape):
                    self._try(request)

    def _rows(self) -> Iterator[FlagRow]:
        tables = [table for table in self._tables if not table.program]
        assert tables, "it has no flag table of its engine, so nothing was tried"
        for table in tables:
            report = check(self._info, self._built(table.version), table, self._tables)
            yield from report.flags

    def _only_on_the_command_line(self, version: str) -> bool:
        releases = self.key_on_command_line
        return bool(releases) and parse_version_range(releases).contains(self._info, version)


def said(argv: tuple[str, ...], value: str) -> list[str]:
    """The flag before each place where `value` is said, whole; empty for one that stands alone."""
    found = []
    for before, item in zip(("", *argv), argv, strict=False):
        flag, separator, attached = item.partition("=")
        if item == value:
            found.append(before if before.startswith("-") and "=" not in before else "")
        elif separator and attached == value:
            found.append(flag)
    return found


def refusal_faults(field: str, reason: str) -> Iterator[str]:
    """What an operator could not read in a refusal."""
    if field not in _FIELDS and _GROUPS.fullmatch(field) is None:
        yield f"it is refused as {field!r}, which is no field of a profile or model"
    if not reason.strip() or "\n" in reason.strip():
        yield f"{field} is refused without a sentence that says why"
    if KEY in reason:
        yield f"the refusal of {field} shows the key"


def _faults(one: Answered) -> Iterator[str]:
    names = [command.name for command in one.commands]
    if not names:
        yield "there is no command"
    if len(set(names)) < len(names) or not all(re.fullmatch(r"[a-z][a-z0-9_-]*", name) for name in names):
        yield f"the names of its processes are {', '.join(map(repr, names))}"
    timeouts = one.request.shard.timeouts
    for command in one.commands:
        if not command.argv or not all(command.argv) or any("\0" in item for item in command.argv):
            yield f"{command.name} has an argument that is empty, or that no program can be given"
        if command.grace < timeouts.kill:
            yield f"{command.name} gets {command.grace:g} s to end, the operator gives {timeouts.kill:g} s"
        wait = command.wait_for
        if wait is not None and not 0 < wait.timeout <= max(timeouts.load, timeouts.wait):
            yield f"{command.name} waits {wait.timeout:g} s for a port, longer than the shard may take"


def _shown(command: Command) -> Iterator[str]:
    """Every text of a command that others may see."""
    yield command.name
    yield from command.argv
    yield from (text for pair in command.env.items() for text in pair)
    yield from (*command.secret_env, *command.secret_files)


def _whole(commands: tuple[Command, ...]) -> str:
    """Everything that the processes are given, the secrets too."""
    texts = [text for command in commands for text in _shown(command)]
    for command in commands:
        for secrets in (command.secret_env, command.secret_files):
            texts += [value.get_secret_value() for value in secrets.values()]
    return "\n".join(texts)


def _texts(one: Answered) -> list[str]:
    env = one.commands[-1].env
    return [*one.argv, *(f"{name}={env[name]}" for name in sorted(env))]


def _number(text: str) -> int:
    digits = text.rpartition("=")[2]
    return int(digits) if digits.isdecimal() else 0


def _in_proportion(numbers: list[int]) -> bool:
    """Whether two numbers are the same multiple of the two limits; an engine may have several slots."""
    times, rest = divmod(numbers[0], _LIMITS[0])
    return times > 0 and rest == 0 and numbers[1] == times * _LIMITS[1]


def _where(row: FlagRow) -> str:
    return f"{row.against}; for {row.combinations[0]}"
