"""Real starts that cannot work: each ends with code 1, a class, a hint, and no traceback."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engine


@pytest.fixture
def damaged(model: Path, tmp_path: Path, gguf: Callable[..., Path]) -> Callable[[str], Path]:
    """Makes a file that llama.cpp cannot load."""
    path = tmp_path / "model.gguf"

    def make(kind: str) -> Path:
        if kind == "junk":
            path.write_bytes(b"<html>not a model</html>" * 100)
        elif kind == "empty":
            path.write_bytes(b"")
        elif kind == "directory":
            path.mkdir()
        elif kind == "architecture":
            return gguf(general__architecture="unheard-of")
        elif kind == "version":
            return gguf(version=9, general__architecture="llama")
        elif kind in {"truncated", "header-cut"}:
            with model.open("rb") as whole:
                path.write_bytes(whole.read(8_000_000 if kind == "truncated" else 2_000))
        return path

    return make


@pytest.mark.parametrize(
    ("kind", "hint"),
    (
        ("missing", "not a file on this node"),
        ("junk", "not a GGUF file"),
        ("empty", "not a GGUF file"),
        ("directory", "not a GGUF file"),
        ("truncated", "cut off or damaged"),
        ("header-cut", "cut off or damaged"),
        ("architecture", "too old for the model"),
        ("version", "too old for the model"),
    ),
)
def test_a_model_that_cannot_be_loaded_is_a_configuration_failure(
    start_engine: Callable[..., Any],
    binary: tuple[str, ...],
    damaged: Callable[[str], Path],
    kind: str,
    hint: str,
) -> None:
    engine = start_engine(damaged(kind), binary)
    assert engine.ended() == 1
    found = engine.failure()
    assert found is not None, engine.text()
    assert found.failure == "configuration"
    assert hint in found.hint
    assert "Traceback" not in engine.text()


def test_a_busy_port_is_its_own_failure(
    start_engine: Callable[..., Any], model: Path, binary: tuple[str, ...]
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        engine = start_engine(model, binary, port=holder.getsockname()[1])
        assert engine.ended() == 1
    found = engine.failure()
    assert found is not None, engine.text()
    assert found.failure == "port_in_use"
    assert "Traceback" not in engine.text()


@pytest.mark.parametrize(
    ("extra", "hint"),
    (
        (("--no-such-flag",), "does not know the flag"),
        (("--ctx-size", "many"), "does not fit the flag"),
        (("--ctx-size", "99999999999999999999"), "does not fit the flag"),
    ),
)
def test_a_flag_that_is_not_understood_is_a_configuration_failure(
    start_engine: Callable[..., Any],
    model: Path,
    binary: tuple[str, ...],
    extra: tuple[str, ...],
    hint: str,
) -> None:
    engine = start_engine(model, binary, extra=extra)
    assert engine.ended() == 1
    found = engine.failure()
    assert found is not None, engine.text()
    assert (found.failure, hint in found.hint) == ("configuration", True)
    assert "Traceback" not in engine.text()
