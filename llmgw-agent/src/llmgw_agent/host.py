"""The real HostView: what discovery may read and run on this machine, with limits."""

from __future__ import annotations

import os

from llmgw_core.spec.node import CommandResult

from llmgw_agent.process import run_command

MAX_TEXT = 1024 * 1024


class LinuxHost:
    """Reads sysfs and /proc, and runs short commands. Blocks: call it from a thread."""

    def read_text(self, path: str) -> str | None:
        """The text of a file of at most 1 MiB; None when it is not there, not readable or larger."""
        try:
            with open(path, "rb") as file:
                content = file.read(MAX_TEXT + 1)
        except OSError:
            return None
        return content.decode(errors="replace") if len(content) <= MAX_TEXT else None

    def list_dir(self, path: str) -> tuple[str, ...] | None:
        """Sorted names in a directory; None when it is not there or not readable."""
        try:
            return tuple(sorted(os.listdir(path)))
        except OSError:
            return None

    def run(self, argv: tuple[str, ...], timeout: float) -> CommandResult | None:
        """Run a command with a limit in seconds; None when the program is not there."""
        return run_command(argv, timeout)
