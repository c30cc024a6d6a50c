"""`llmgw-llama-server`: llama.cpp's own server from the xllamacpp wheel, started like llama-server.

It takes llama-server's flags (`options.py`), environment variables and defaults, answers as llama-server
does, and knows nothing of llmgw. An unknown flag is an error.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NoReturn, TextIO

from llmgw_llamacpp.arglist import BadArgument, help_text, settings
from llmgw_llamacpp.options import Member, Setting

PROGRAM = "llmgw-llama-server"
_ENDING = (signal.SIGTERM, signal.SIGINT)


def main() -> None:
    """Entry point of the console script and of `python -m llmgw_llamacpp.launcher`."""
    for stream in (sys.stdout, sys.stderr):
        _by_line(stream)
    try:
        code = run(sys.argv[1:], os.environ)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output (`--help | head`) has seen enough; the interpreter flushes once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Do what the command line says; the exit code, unless a signal ends a serving process before."""
    if {"-h", "--help", "--usage"} & set(argv):
        print(help_text(PROGRAM))
        return 0
    try:
        if "--version" in argv:
            print(version(engine()))
            return 0
        serve(settings(argv, environ))
    except BadArgument as error:
        return _failed(str(error))
    except RuntimeError as error:
        # llama.cpp has written the cause above; this is its summary.
        return _failed(f"error: {error}")


def engine() -> Any:
    """The xllamacpp module. Raises RuntimeError that says how to get it, or why it cannot be loaded."""
    try:
        import xllamacpp
    except ModuleNotFoundError as error:
        if error.name != "xllamacpp":
            raise RuntimeError(f"xllamacpp cannot be loaded: {error}") from error
        raise RuntimeError(
            "xllamacpp, which holds llama.cpp, is not installed in this environment; install it with "
            'pip install "llmgw-llamacpp[embedded]", or put a llama-server on the PATH'
        ) from error
    except ImportError as error:
        raise RuntimeError(f"xllamacpp cannot be loaded: {error}") from error
    return xllamacpp


def version(xllamacpp: Any) -> str:
    """llama-server's two lines; the wheel does not know its build, only its version number holds it."""
    build = xllamacpp.__version__.split(".")[-1]
    made = xllamacpp.BUILD_INFO
    return (
        f"version: {build} (xllamacpp {xllamacpp.__version__}, from the package version)\n"
        f"built with {made['compiler']} for {made['build_target']}"
    )


def serve(wanted: Mapping[str, Setting]) -> NoReturn:
    """Load the model and serve it until TERM or INT, which ends this process with code 0.

    Raises RuntimeError if it cannot start, and BadArgument for a number that llama.cpp cannot hold.
    """
    xllamacpp = engine()
    params = xllamacpp.CommonParams()
    for field, value in wanted.items():
        _put(xllamacpp, params, field, value)
    # Server() holds the interpreter for the whole load, minutes for a large model: a Python handler would
    # not run. With the default action a TERM ends the process at once, which is right while it loads.
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)
    server = xllamacpp.Server(params)
    caught = _wait_for_signal()
    print(f"{PROGRAM}: stopped by {caught.name}, {server.listening_address} is closed", file=sys.stderr)
    # Not by the server's own end: with a stream in flight it waits for the next keep-alive comment, up to
    # 30 s (measured with 2026.10.11549). There is nothing to save, and llama-server cuts streams as well.
    os._exit(0)


def _put(xllamacpp: Any, params: Any, field: str, value: Setting) -> None:
    *path, name = field.split(".")
    target = reduce(getattr, path, params)
    if isinstance(value, Member):
        given = getattr(getattr(xllamacpp, value.enumeration), value.name)
    else:
        # xllamacpp takes a set where there may be no order.
        given = set(value) if isinstance(value, frozenset) else value
    try:
        setattr(target, name, given)
    except OverflowError:
        raise BadArgument(f"error while handling argument for {field}: the number is too large") from None


def _wait_for_signal() -> signal.Signals:
    # The kernel may hand the signal to one of llama.cpp's threads. Only the wake-up pipe tells the main
    # thread of it in every case.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in _ENDING:
        signal.signal(number, lambda _number, _frame: None)
    return signal.Signals(os.read(reader, 1)[0])


def _by_line(stream: TextIO) -> None:
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(line_buffering=True)


def _failed(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
