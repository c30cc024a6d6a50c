"""What lies where in the state directory of `llmgw up`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class StateLayout:
    """Paths of a state directory; all of it belongs to the one `up` that holds `lock`."""

    root: Path

    @property
    def lock(self) -> Path:
        return self.root / "up.lock"

    @property
    def children(self) -> Path:
        return self.root / "children.json"

    @property
    def catalog(self) -> Path:
        """The catalog that was made for `--model`."""
        return self.root / "catalog.yaml"

    @property
    def api_key(self) -> Path:
        return self.root / "api_key"

    def token(self, role: str) -> Path:
        """The file with the token of `admin`, `agent` or `gateway`."""
        return self.root / "tokens" / role

    def config(self, daemon: str) -> Path:
        return self.root / "config" / f"{daemon}.yaml"

    def log(self, daemon: str) -> Path:
        return self.root / "logs" / f"{daemon}.log"

    def data(self, daemon: str) -> Path:
        """The state directory of one daemon."""
        return self.root / daemon

    def directories(self) -> tuple[Path, ...]:
        return (self.root, *(self.root / name for name in ("tokens", "config", "logs")))


def default_state_dir() -> Path:
    """`$XDG_STATE_HOME/llmgw`, or `~/.local/state/llmgw`."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "llmgw"


def shown(path: Path) -> str:
    """A path as people write it, with `~` for their home."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
