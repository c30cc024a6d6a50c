"""Reads a command line and an environment the way llama-server does.

Not argparse: llama-server takes neither `--flag=value` nor abbreviations, gives a flag whatever item comes
next, and lets the command line win over the environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmgw_llamacpp.options import AUTO_PARALLEL, DEFAULTS, OPTIONS, Option, Setting

__all__ = ["BadArgument", "help_text", "settings"]


class BadArgument(Exception):
    """Raised with the sentence to print when a flag or a variable cannot be accepted."""


@dataclass(frozen=True)
class _Flag:
    """One spelling of an option, and what it says if the option is a switch."""

    option: Option
    on: bool = True


_FLAGS: Mapping[str, _Flag] = {
    **{name: _Flag(option) for option in OPTIONS for name in option.names},
    **{name: _Flag(option, on=False) for option in OPTIONS for name in option.off},
}


def settings(argv: Sequence[str], environ: Mapping[str, str]) -> dict[str, Setting]:
    """Field of llama.cpp's parameters → value, llama-server's defaults included. Raises BadArgument."""
    found = {**DEFAULTS, **dict(_from_environment(environ)), **dict(_from_command_line(argv))}
    if "model.path" not in found:
        raise BadArgument("error: no model is given: --model PATH")
    parallel = found["n_parallel"]
    if isinstance(parallel, int) and parallel < 0:
        found |= {"n_parallel": AUTO_PARALLEL, "kv_unified": True}
    if "cpuparams.n_threads" in found:
        found.setdefault("cpuparams_batch.n_threads", found["cpuparams.n_threads"])
    return found


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Setting]]:
    for option in OPTIONS:
        if option.env and option.env in environ:
            yield from _set(
                option, _read(option, f'environment variable "{option.env}"', environ[option.env])
            )


def _from_command_line(argv: Sequence[str]) -> Iterator[tuple[str, Setting]]:
    items = iter(argv)
    for item in items:
        # llama-server reads --ctx_size as --ctx-size.
        flag = _FLAGS.get(item.replace("_", "-") if item.startswith("--") else item)
        if flag is None:
            # What follows a "=" may be a key.
            raise BadArgument(f"error: invalid argument: {item.partition('=')[0]}")
        if flag.option.switch:
            yield from _set(flag.option, flag.on)
            continue
        what, text = f'argument "{item}"', next(items, None)
        if text is None:
            raise BadArgument(f"error while handling {what}: expected value for argument")
        yield from _set(flag.option, _read(flag.option, what, text))


def _set(option: Option, value: Setting) -> Iterator[tuple[str, Setting]]:
    return ((field, value) for field in option.fields)


def _read(option: Option, what: str, text: str) -> Setting:
    try:
        return option.read(text)
    except ValueError as error:
        raise BadArgument(f"error while handling {what}: {error}") from None


def help_text(program: str) -> str:
    """Every flag with its environment variable."""
    lines = [f"usage: {program} --model PATH [flags of llama-server]", ""]
    for option in OPTIONS:
        names = ", ".join((*option.names, *option.off)) + ("" if option.switch else " VALUE")
        notes = [option.text, f"(env: {option.env})" if option.env else ""]
        lines.append(f"  {names:<46} {' '.join(note for note in notes if note)}".rstrip())
    return "\n".join([*lines, "", "  --version", "  -h, --help, --usage", ""])
