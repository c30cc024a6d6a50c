"""The program `llmgw`: finds the command, runs it, and turns every error into one message."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from llmgw_core.cli.commands import BUILT_IN, CommandEntry, installed_commands


class LazyGroup(click.Group):
    """Imports a command only when it is run."""

    def entries(self) -> dict[str, CommandEntry]:
        """Every command by name, built-in ones first."""
        return {**BUILT_IN, **installed_commands()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = BUILT_IN.get(cmd_name) or installed_commands().get(cmd_name)
        return None if entry is None else _import(cmd_name, entry)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.entries().items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = not args or args[0].startswith("-") or args[0] in BUILT_IN
        if not known and args[0] not in self.entries():
            raise click.UsageError(_unknown(args[0], list(self.entries())), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            raise click.exceptions.Exit(130) from None
        except BrokenPipeError:
            raise  # click's own: whoever read the output has seen enough
        except Exception as error:
            if ctx.params["debug"]:
                raise
            raise click.exceptions.Exit(tell(error)) from None


def tell(error: Exception) -> int:
    """Say on stderr what was wrong, where, and what to do; never a traceback. The exit code."""
    from llmgw_core import os_errors
    from llmgw_core.spec.errors import LlmgwError

    known = _first_known(error, LlmgwError)
    if isinstance(known, LlmgwError):
        place = f"{known.where}: " if known.where else ""
        message, fix, code = f"{place}{known.message}", known.fix, known.exit_code
    elif isinstance(known, OSError):
        message, code = os_errors.sentence(known), 1
        fix = os_errors.advice(known) or "`llmgw --debug …` shows where it happened"
    else:
        message, code = f"{type(known).__name__}: {known}", 1
        fix = "this is a bug in llmgw or in a plugin; `llmgw --debug …` shows where it happened"
    advice = f"\n  → {fix}" if fix else ""
    click.echo(f"{click.style('error:', fg='red')} {message}{advice}", err=True)
    return code


def _first_known(error: BaseException, known: type[Exception]) -> BaseException:
    """The error to tell: task groups wrap what their tasks raise, several of them at times."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [_first_known(inner, known) for inner in error.exceptions]
    return next((leaf for leaf in leaves if isinstance(leaf, known)), leaves[0])


def _import(name: str, entry: CommandEntry) -> click.Command:
    try:
        command = getattr(import_module(entry.module), entry.attribute)
    except Exception as error:
        if name in BUILT_IN:
            raise
        raise _broken(name, entry, str(error)) from error
    if not isinstance(command, click.Command):
        raise _broken(name, entry, "it is not a click command")
    return command


def _broken(name: str, entry: CommandEntry, reason: str) -> Exception:
    from llmgw_core.spec.errors import PluginRefused

    return PluginRefused(name, f"{entry.module}:{entry.attribute}: {reason}")


def _unknown(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    return f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else "")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show tracebacks of errors.")
def llmgw(debug: bool) -> None:
    """Run LLM engines on your own machines, behind one OpenAI-compatible address.

    Start with `llmgw up --model FILE.gguf`.
    """


def main() -> None:
    """Entry point of the program; exits 0, 1 (failed), 2 (usage or configuration) or 130 (Ctrl-C)."""
    llmgw.main(prog_name="llmgw")
