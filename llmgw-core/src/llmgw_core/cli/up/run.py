"""One `llmgw up` from the first process to the last."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import anyio
import anyio.to_thread

from llmgw_core.cli.admin_client import AdminClient
from llmgw_core.cli.up.child import ChildSpec
from llmgw_core.cli.up.curl import ready_words
from llmgw_core.cli.up.ending import Ending
from llmgw_core.cli.up.engines import engine_processes
from llmgw_core.cli.up.first_run import read_secret
from llmgw_core.cli.up.plan import UpPlan
from llmgw_core.cli.up.printer import Printer
from llmgw_core.cli.up.screen import Places, rows, verdict
from llmgw_core.cli.up.supervisor import ChildState, Supervisor
from llmgw_core.cli.up.watch import Sight, Watcher
from llmgw_core.daemon import notify, stop_signals

LOOK_WHILE_STARTING = 0.2
LOOK_LATER = 1.0


async def run_up(
    plan: UpPlan,
    specs: tuple[ChildSpec, ...],
    environment: Mapping[str, str],
    printer: Printer,
    *,
    keep_engines: bool,
) -> None:
    """Keep the children running and show how they stand, until TERM or Ctrl-C; then end them in order.

    Raises EnginesLeft when an engine could not be stopped.
    """
    supervisor = Supervisor(specs, plan.layout.children, environment)
    key = read_secret(plan.layout, "api_key")
    watcher = Watcher(
        AdminClient(plan.admin_url, read_secret(plan.layout, "admin"), timeout=5.0),
        AdminClient(plan.gateway_url, key, timeout=5.0),
    )
    show = Show(plan, supervisor, watcher, printer, key)
    look = partial(engine_processes, plan.layout.data("agent"))
    ending = Ending(supervisor, partial(anyio.to_thread.run_sync, look), printer.say)
    asked = anyio.Event()
    async with anyio.create_task_group() as group:
        await group.start(stop_signals, asked.set, ending.hurry)
        group.start_soon(supervisor.run)
        async with anyio.create_task_group() as looking:
            looking.start_soon(show.run)
            await asked.wait()
            looking.cancel_scope.cancel()
        notify("STOPPING=1")
        printer.settle()
        await ending.run(keep_engines=keep_engines)
        group.cancel_scope.cancel()


class Show:
    """Looks again and again, and tells what changed."""

    def __init__(
        self, plan: UpPlan, supervisor: Supervisor, watcher: Watcher, printer: Printer, key: str
    ) -> None:
        self._plan = plan
        self._supervisor = supervisor
        self._watcher = watcher
        self._printer = printer
        self._key = key
        self._answers = False
        self._answered: dict[str, tuple[int | None, ...]] = {}
        self._verdict: str | None = None

    async def run(self) -> None:
        """Never returns by itself."""
        while True:
            await self._watcher.look()
            self._show()
            await anyio.sleep(LOOK_LATER if self._answers else LOOK_WHILE_STARTING)

    def _show(self) -> None:
        sight = self._watcher.sight
        states = self._supervisor.states()
        places = Places(self._plan.admin_url, self._plan.gateway_url)
        self._printer.show(rows(places, sight, states, self._silent(sight, states)))
        answering = sight.answering()
        if answering and not self._answers:
            self._answers = True
            notify("READY=1")
            self._printer.settle()
            self._printer.say(ready_words(self._plan.gateway_url, self._key, answering[0]))
        told = verdict(sight)
        if told and told != self._verdict:
            self._printer.say(f"\n  {told}\n")
        self._verdict = told

    def _silent(self, sight: Sight, states: Mapping[str, ChildState]) -> frozenset[str]:
        """Children that run and answered before, and do not now; a stopped process looks like that."""
        heard = {"server": sight.status is not None, "gateway": sight.served is not None}
        if sight.status is not None:  # nobody else knows of the agent
            heard["agent"] = sight.node() is not None
        # An agent is heard through the control plane: after a new start of that it has to come back first.
        server = states["server"].pid
        runs = {name: (states[name].pid, server if name == "agent" else None) for name in heard}
        self._answered.update((name, runs[name]) for name, answers in heard.items() if answers)
        return frozenset(
            name
            for name, answers in heard.items()
            if not answers and states[name].pid is not None and self._answered.get(name) == runs[name]
        )
