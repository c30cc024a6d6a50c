"""Starts of a real SGLang that fail: the last lines of its log have the class, its exit code has not."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(3600)]


def test_a_flag_that_it_does_not_know(start_engine: Callable[..., Any], model: Path) -> None:
    engine = start_engine(model, extra=("--no-such-flag=1",))
    assert engine.ended() == 2
    assert engine.failure().failure == "configuration"
    assert "does not know the flag" in engine.failure().hint


def test_a_model_that_is_not_there(start_engine: Callable[..., Any], model: Path) -> None:
    engine = start_engine(model.with_name("nothing"))
    assert engine.ended() != 0
    assert engine.failure().failure == "configuration"


def test_a_rendezvous_port_that_is_taken(start_engine: Callable[..., Any], model: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        other = start_engine(model, ports=(0, taken.getsockname()[1]))
        assert other.ended() != 0
    assert other.failure().failure == "port_in_use"
