"""Rules about what others decide in a command: an operator's arguments, names and paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from llmgw_core.engine_check.variety import Request
from llmgw_core.spec import Arity, EngineArg, Flag, FlagTable, Unsupported, resolve
from llmgw_core.testing.engine_commands import refusal_faults, said
from llmgw_core.testing.engine_suite import ADDRESS, NAME, PORT, SOURCE, Answered, EngineSuite, changed
from llmgw_core.testing.rules import rule

__all__ = ["ArgumentRules"]

HOSTILE = (
    "two words",
    "-x",
    "--port=1",
    "line\nbreak",
    "'\"`$(true)\\",
    "a=b,c=d",
    '{"a": 1}',
    "𝓊𝓃𝒾 ²",
    "x" * 5000,
)
_NUL = "a\0b"
_TRIED = 4
"""Flags of the table that are tried with every hostile value."""


class ArgumentRules(EngineSuite):
    """What an operator writes reaches the engine as it is, and nothing of llmgw's own is overridden."""

    @rule
    def test_no_argument_overrides_its_own(self) -> None:
        """An operator's flag that won over llmgw's would make a server that nobody finds, or anybody uses."""
        one = self._one()
        for what, value in (("source", SOURCE), ("name", NAME), ("address", ADDRESS), ("port", str(PORT))):
            for flag in said(one.argv, value):
                for written in _spellings(flag, self._newest):
                    self._must_refuse(one.request, written, f"it sets the {what}")
        for written in ("api-key", "api_key"):
            if self._newest is not None and f"--{written}" in self._newest.by_name:
                self._must_refuse(one.request, written, "it sets the key")

    @rule
    def test_a_hostile_value_stays_one_argument(self) -> None:
        """Names, paths and arguments come from a file; none may become a flag or a second argument."""
        one = self._one()
        changes: list[Callable[[str], Request]] = [
            lambda text: changed(one.request, served_name=text),
            lambda text: changed(one.request, source=f"/models/{text}"),
            *(self._with(one.request, name) for name in self._free(one.request)),
        ]
        for change in changes:
            plain = self._try(change("1"))
            assert isinstance(plain, Answered), f"it refuses the plain value 1: {plain}"
            for text in HOSTILE:
                if fault := self._split(plain, self._try(change(text)), text):
                    raise AssertionError(f"{text[:40]!r}: {fault}")
            assert isinstance(self._try(change(_NUL)), Unsupported), (
                "it takes a NUL, which no program can get"
            )

    @rule
    def test_code_of_others_needs_permission(self) -> None:
        """A model's author may write code; it runs only where the operator says so in the profile."""
        one = self._one()
        for flag in self._newest.flags if self._newest is not None else ():
            for name in flag.names:
                if name.startswith("--") and "remote-code" in name.replace("_", "-"):
                    self._must_refuse(one.request, name.lstrip("-"), "it lets other code in", value=True)

    def _must_refuse(self, request: Request, written: str, what: str, value: EngineArg = "x") -> None:
        tried = self._try(changed(request, profile={"engine_args": {written: value}}))
        assert isinstance(tried, Unsupported), f"the operator's {written!r} is taken, and {what}"
        for fault in refusal_faults(tried.field, tried.reason):
            raise AssertionError(fault)

    def _with(self, request: Request, name: str) -> Callable[[str], Request]:
        return lambda text: changed(request, profile={"engine_args": {name: text}})

    def _free(self, request: Request) -> tuple[str, ...]:
        """Some flags with a free value that operators may set. Raises AssertionError where there are none."""
        table = self._newest
        if table is None:
            return ()
        names = (
            max(flag.names, key=len).lstrip("-")
            for flag in table.flags
            if flag.arity is Arity.ONE and not flag.choices
        )
        taken = (name for name in names if isinstance(self._try(self._with(request, name)("1")), Answered))
        found = tuple(islice(taken, _TRIED))
        assert found, "it takes no engine_args, so operators could not use what their engine has"
        return found

    def _split(self, plain: Answered, tried: Answered | Unsupported, text: str) -> str | None:
        """How a value did not stay one argument, or None."""
        if isinstance(tried, Unsupported):
            return next(refusal_faults(tried.field, tried.reason), None)
        if len(tried.argv) != len(plain.argv):
            return f"there are {len(tried.argv)} arguments instead of {len(plain.argv)}"
        for before, after in zip(plain.argv, tried.argv, strict=True):
            if before != after and not after.endswith(text):
                return f"{after[:40]!r} is not the whole value"
            if before != after and after.startswith("-") and after == text and not self._greedy:
                return "it stands alone and begins with a dash, so it would be read as a flag"
        return None if plain.argv != tried.argv else "it is lost"

    @property
    def _greedy(self) -> bool:
        """Whether the engine takes what follows a flag for its value, whatever it looks like."""
        return self._newest is not None and self._newest.grammar.greedy


def _spellings(flag: str, table: FlagTable | None) -> Iterator[str]:
    """What an operator could write to set a flag."""
    bare = flag.lstrip("-")
    if not bare:  # it stands at its place, without a flag
        return
    yield from dict.fromkeys((bare, flag, bare.replace("-", "_"), bare.replace("_", "-"), f"{bare}=1"))
    if table is None or flag not in table.by_name:
        return
    own: Flag = table.by_name[flag]
    yield from (name.lstrip("-") for name in own.names)
    begun = f"--{bare[:-1]}"
    if begun not in table.by_name and resolve(table, begun) == (own,):
        yield begun.lstrip("-")
