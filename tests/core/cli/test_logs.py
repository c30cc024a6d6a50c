"""Logs of the daemons: JSON lines where no terminal is, no secrets, no tracebacks."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from llmgw_core.logging import hide_secrets

KEY = "llmgw-0123456789abcdefghijABCDEFGHIJ01"
PROGRAM = f"""
import asyncio, logging, sys
from llmgw_core.config import LogConfig
from llmgw_core.logging import set_up
set_up(LogConfig(level=sys.argv[1], format=sys.argv[2]), "server")
log = logging.getLogger("llmgw_core.somewhere")
log.debug("fine print")
log.info("asked with %s", "{KEY}", extra={{"token": "t0psecret", "headers": {{"x": "Bearer t0psecret"}}}})
for kind, logger in ((ValueError, log), (asyncio.CancelledError, logging.getLogger("uvicorn.error"))):
    try:
        raise kind("broke with {KEY}")
    except BaseException:
        logger.exception("Exception in ASGI application\\n")
"""


def logged(level: str, form: str = "auto") -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, level, form], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == ""
    return done.stderr


def entries(level: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in logged(level).splitlines()]


def test_where_no_terminal_is_each_entry_is_a_line_of_json() -> None:
    first, second = entries("info")
    assert first["event"] == "asked with llmgw-…"
    assert first["program"] == "server"
    assert first["logger"] == "llmgw_core.somewhere"
    assert second["level"] == "error"


def test_an_exception_is_one_line_with_its_place_and_no_traceback() -> None:
    error = entries("info")[1]
    assert error["error"] == "ValueError: broke with llmgw-…"
    assert error["at"] == "<string>:11"
    assert "exception" not in error


def test_debug_has_the_traceback_and_the_fine_print() -> None:
    told = entries("debug")
    assert told[0]["event"] == "fine print"
    assert "Traceback" in told[2]["exception"]


@pytest.mark.parametrize("level", ("info", "debug"))
@pytest.mark.parametrize("form", ("json", "human"))
def test_no_secret_reaches_a_log(level: str, form: str) -> None:
    told = logged(level, form)
    assert "asked with" in told
    assert KEY not in told
    assert "t0psecret" not in told


def test_what_uvicorn_says_of_cut_off_requests_is_dropped() -> None:
    assert not any("CancelledError" in str(entry) for entry in entries("info"))


@pytest.mark.parametrize("text", ("llmgw-llama-server", "llmgw-fabric-ib 0.1.0"))
def test_names_of_packages_are_no_secrets(text: str) -> None:
    assert hide_secrets(text) == text
