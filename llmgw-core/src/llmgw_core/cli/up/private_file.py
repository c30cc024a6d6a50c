"""Files of the state directory that nobody else may read."""

from __future__ import annotations

import os
from pathlib import Path

from llmgw_core.os_errors import advice
from llmgw_core.spec.errors import StateDirError


def write_private(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step, 0600. Raises StateDirError."""
    new = path.with_name(path.name + ".new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise StateDirError(
            f"cannot be written: {error.strerror}", where=str(path), fix=advice(error)
        ) from None


def read_private(path: Path) -> str | None:
    """The text of `path`; None when it is not there. Raises StateDirError."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        fix = advice(error) if isinstance(error, OSError) else "remove it; it is made anew"
        raise StateDirError(f"cannot be read: {reason}", where=str(path), fix=fix) from None
