"""`llmgw up` with children of the test's choice: everything behind the checks is the real thing.

`fake_up.py SETTINGS` where SETTINGS is a JSON file with `root`, `admin`, `gateway`, `keep_engines`,
`silent`, and `children`: name → `{argv, fingerprint}`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import anyio
from llmgw_core.cli.up import ending
from llmgw_core.cli.up.child import ChildSpec
from llmgw_core.cli.up.first_run import prepare
from llmgw_core.cli.up.layout import StateLayout
from llmgw_core.cli.up.plan import UpPlan
from llmgw_core.cli.up.printer import LinePrinter
from llmgw_core.cli.up.run import run_up
from llmgw_core.daemon import StateLock


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text())
    layout = StateLayout(Path(given["root"]))
    plan = UpPlan(layout, layout.catalog, "", given["admin"], given["gateway"])
    specs = tuple(
        ChildSpec(
            name,
            tuple(child["argv"]),
            layout.log(name),
            child["fingerprint"],
            signal.SIGUSR1 if name == "agent" else signal.SIGTERM,
        )
        for name, child in given["children"].items()
    )
    ending.SILENT = given["silent"]
    with StateLock.take(layout.lock, "llmgw up"):
        prepare(layout)
        anyio.run(lambda: run_up(plan, specs, os.environ, LinePrinter(), keep_engines=given["keep_engines"]))


if __name__ == "__main__":
    main()
