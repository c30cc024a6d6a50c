"""Logs of a daemon: to stderr, for people on a terminal, as JSON lines otherwise.

Everything logs through the standard library (`logging.getLogger(__name__)`, details in `extra=`);
`set_up` decides once how it looks. structlog is imported there and not above: it costs a third of a
second, which no short command should pay.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.typing import Processor, WrappedLogger

    from llmgw_core.config import LogConfig

HIDDEN = "…"
_SECRET_TEXT = re.compile(r"(llmgw-)[A-Za-z0-9]{16,}|((?i:bearer)\s+)[^\s\"',]+")
_SECRET_NAME = re.compile(r"(?i)(^|_)(token|key|secret|password|authorization)$")
_QUIET = ("httpx2", "httpcore", "httpcore2", "aiosqlite", "sqlalchemy", "alembic", "asyncio")


def set_up(config: LogConfig, program: str) -> None:
    """Send everything that this process logs to stderr, in the form and from the level of `config`."""
    import structlog

    debug = config.level == "debug"
    human = config.format == "human" or (config.format == "auto" and sys.stderr.isatty())
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=not human),
        structlog.processors.format_exc_info if debug else _exception_in_a_line,
        redact,
    ]
    form: Processor = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if human
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_named(program), *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, form],
        )
    )
    _install(handler, config.level.upper())


def _install(handler: logging.Handler, level: str) -> None:
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.getLevelName(level), logging.WARNING))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.propagate = True
    logging.getLogger("uvicorn.error").addFilter(_not_cut_off)


def _not_cut_off(record: logging.LogRecord) -> bool:
    """Drop what uvicorn says of requests that were cancelled because the daemon stops."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "CancelledError"


def _named(program: str) -> Processor:
    def add(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        record = event.get("_record")
        text = str(event["event"]).strip()  # uvicorn ends some of its messages with a newline
        return {"program": program, "logger": getattr(record, "name", program), **event, "event": text}

    return add


def _exception_in_a_line(
    _: WrappedLogger, __: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """What happened and where, in one line; the whole traceback is for `log.level: debug`."""
    record = event.get("_record")
    info = event.pop("exc_info", None) or getattr(record, "exc_info", None)
    if isinstance(info, tuple) and info[1] is not None:
        event["error"] = f"{type(info[1]).__name__}: {info[1]}"
        frames = traceback.extract_tb(info[2], limit=-1)
        event["at"] = f"{frames[0].filename}:{frames[0].lineno}" if frames else "unknown"
    if record is not None:
        record.exc_info = record.exc_text = None
    return event


def redact(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide what looks like a key, a bearer token, or stands under a secret's name."""
    return {name: value if name == "_record" else _clean(name, value) for name, value in event.items()}


def _clean(name: str, value: object) -> object:
    if _SECRET_NAME.search(name):
        return HIDDEN
    if isinstance(value, str):
        return hide_secrets(value)
    if isinstance(value, Mapping):
        return {key: _clean(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean("", inner) for inner in value]
    return value


def hide_secrets(text: str) -> str:
    """`text` without anything that looks like an API key or a bearer token."""
    return _SECRET_TEXT.sub(lambda found: (found[1] or found[2]) + HIDDEN, text)
