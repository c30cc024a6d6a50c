"""Rules about what an engine plugin says of itself: facts, capabilities, flag tables."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator

from llmgw_core.engine_check.variety import Option, shapes
from llmgw_core.spec import Capability, EngineInfo, Support, parse_version_range, version_key
from llmgw_core.testing.engine_suite import KEY, EngineSuite, option
from llmgw_core.testing.rules import rule

__all__ = ["FactRules"]


class FactRules(EngineSuite):
    """What is said of an engine is whole, and true of its commands."""

    @rule
    def test_its_facts_are_whole(self) -> None:
        """What core reads without running plugin code has to be there and to be readable."""
        for fault in _faults(self._info):
            raise AssertionError(fault)

    @rule
    def test_every_capability_is_declared(self) -> None:
        """What is left out counts as no, and nobody can tell whether it was tried."""
        declared = {one for one, support in self._info.capabilities.items() if support is not Support.UNKNOWN}
        empty = [one for one, why in self.exempt.items() if not why.strip()]
        assert not empty, f"exempt for no reason: {', '.join(empty)}"
        open_ones = sorted(set(Capability) - declared - self.exempt.keys())
        if not open_ones:
            return
        text = f"it says nothing of {', '.join(open_ones)}"
        assert not self.first_party, text
        warnings.warn(f"{self.name}: {text}, which counts as no", stacklevel=2)

    @rule
    def test_what_it_declares_is_true(self) -> None:
        """Placement believes it: a capability is shown by a command, its lack by a refusal."""
        for capability, support in self._info.capabilities.items():
            if support is Support.UNKNOWN:
                continue
            given = any(self._shows(capability, *asked) for asked in self._asking_for(capability))
            supported = support is Support.SUPPORTED
            assert given == supported, f"{capability} is declared {support}, but " + (
                "no command is given for it" if supported else "commands are given for it"
            )

    @rule
    def test_every_flag_table_says_where_it_is_from(self) -> None:
        """A table is evidence only with the release and the source that it was made from."""
        assert self._tables, "it has no flag table, so no flag of its commands can be checked"
        often = Counter((table.program, table.version) for table in self._tables)
        for table in self._tables:
            where = f"the table of {table.program or table.engine} {table.version}".rstrip()
            assert often[table.program, table.version] == 1, f"{where} is there twice"
            assert version_key(self._info, table.version), f"{where} has no version that could be compared"
            assert table.captured_from.strip(), f"{where} does not say what it was captured from"
            assert table.flags, f"{where} has no flags"
            assert table.complete or table.incomplete_because.strip(), f"{where} does not say what it lacks"
            assert table.program or table.engine == self.name, f"{where} is not one of {self.name}"

    def _asking_for(self, capability: Capability) -> Iterator[tuple[str, Option, tuple[Option, ...]]]:
        """Versions, shapes and options that only an engine with the capability takes."""
        options = {
            Capability.LORA: (option("lora"),),
            Capability.EMBEDDING: (option("kind embedding"),),
            Capability.RERANK: (option("kind rerank"),),
        }
        for version in self._versions:
            for shape in shapes(self._info):
                if _needs(capability, shape):
                    yield version, shape, options.get(capability, ())

    def _shows(
        self, capability: Capability, version: str, shape: Option, options: tuple[Option, ...]
    ) -> bool:
        accepted = self._accepts(version, shape, *options)
        if capability is not Capability.KEY_BY_ENVIRONMENT:
            return bool(accepted)
        return any(
            KEY in value.get_secret_value()
            for one in accepted
            for command in one.commands
            for value in command.secret_env.values()
        )


def _needs(capability: Capability, shape: Option) -> bool:
    """Whether a shape can be had only with the capability, or is one to try an option on."""
    nodes, gpus = shape.profile["nodes"], shape.profile["gpus_per_node"]
    match capability:
        case Capability.CPU:
            return nodes == 1 and not gpus
        case Capability.GPU:
            return nodes == 1 and bool(gpus)
        case Capability.MULTI_NODE:
            return bool(nodes > 1)
        case Capability.TP_ACROSS_NODES:
            return bool(nodes > 1 and shape.profile["tensor_parallel"] > max(gpus, 1))
        case _:
            return bool(nodes == 1)


def _faults(info: EngineInfo) -> Iterator[str]:
    """What is missing in the facts, or cannot be read."""
    if not info.binary.names and not info.binary.fallback:
        yield "no program is named: neither binary.names nor binary.fallback"
    if not info.binary.install_hint.strip():
        yield "binary.install_hint does not say how to get the engine"
    if _groups(info.binary.version_pattern) != 1:
        yield "binary.version_pattern is not a regular expression with one group"
    if _groups(info.version_pattern) is None:
        yield "version_pattern is not a regular expression"
    yield from _path_faults(info)
    yield from _name_faults(info)
    if info.supports(Capability.MULTI_NODE) != (info.max_nodes > 1):
        yield f"max_nodes is {info.max_nodes}, which is not what multi_node says"


def _path_faults(info: EngineInfo) -> Iterator[str]:
    if not info.paths:
        yield "no path is routed to the engine"
    for path in info.paths:
        if re.fullmatch(r"(/[A-Za-z0-9_-]+)+", path) is None:
            yield f"the path {path!r} is not a plain one"


def _name_faults(info: EngineInfo) -> Iterator[str]:
    for pattern in info.failure_patterns:
        if _groups(pattern.pattern) is None or re.search(pattern.pattern, ""):
            yield f"the failure pattern {pattern.pattern!r} cannot be read, or is found in every log"
    for contract in info.metrics:
        if fault := _range_fault(contract.versions):
            yield f"the metrics of {contract.versions!r}: {fault}"
    for name, count in Counter(need.name for need in info.ports).items():
        if count > 1:
            yield f"two needs of ports are called {name}"


def _groups(pattern: str) -> int | None:
    try:
        return re.compile(pattern).groups
    except re.error:
        return None


def _range_fault(text: str) -> str | None:
    try:
        if text:
            parse_version_range(text)
    except ValueError as error:
        return str(error)
    return None
