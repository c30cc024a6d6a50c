"""How long `llmgw --help` takes, beside an interpreter that does nothing: a ratio outlives the machine."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
PROGRAMS = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "llmgw --help": (str(Path(sys.executable).parent / "llmgw"), "--help"),
}


def seconds(argv: tuple[str, ...]) -> float:
    """Wall-clock time of one run."""
    started = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def main() -> None:
    """Print medians of alternating runs, so that both see the same disturbances."""
    taken: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(ROUNDS):
        for name, argv in PROGRAMS.items():
            taken[name].append(seconds(argv))
    bare, program = (statistics.median(runs) for runs in taken.values())
    print(
        f"llmgw --help: {program * 1000:.0f} ms = {program / bare:.1f} × an empty Python {bare * 1000:.0f} ms"
    )


if __name__ == "__main__":
    main()
