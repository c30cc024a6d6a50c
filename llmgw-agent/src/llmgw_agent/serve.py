"""The agent as a process: the real ports, signals, and what systemd wants to hear."""

from __future__ import annotations

import signal
from functools import partial

import anyio
from llmgw_core.config import AgentConfig
from llmgw_core.daemon import notify, stop_signals
from llmgw_core.net import HttpNet
from llmgw_core.plugins import PluginHost
from llmgw_core.ports import AgentPorts
from llmgw_core.system import SystemClock, SystemRand

from llmgw_agent.daemon import Agent
from llmgw_agent.disk import FileDisk
from llmgw_agent.host import LinuxHost
from llmgw_agent.process import LinuxProc

_WATCHDOG_EVERY = 5.0


def real_ports(config: AgentConfig) -> AgentPorts:
    """The ports of this machine."""
    return AgentPorts(
        clock=SystemClock(),
        net=HttpNet(),
        proc=LinuxProc(str(config.state_dir)),
        disk=FileDisk(),
        rand=SystemRand(),
    )


async def serve(config: AgentConfig, drain_and_stop: bool) -> None:
    """Run the agent until a signal ends it; `drain_and_stop` says what TERM does with the engines."""
    agent = Agent(config, real_ports(config), PluginHost.load(), LinuxHost())
    async with anyio.create_task_group() as group:
        at_once = group.cancel_scope.cancel
        await group.start(partial(stop_signals, partial(_stop, agent, drain_and_stop), at_once))
        stay = partial(_stop, agent, False)
        await group.start(partial(stop_signals, stay, at_once, signals=(signal.SIGUSR1,)))
        look = agent.rediscover
        await group.start(partial(stop_signals, look, look, signals=(signal.SIGHUP,)))
        group.start_soon(_feed_watchdog)
        await _run(agent)
        at_once()


def _stop(agent: Agent, drain: bool) -> None:
    notify("STOPPING=1")
    agent.stop(drain)


async def _run(agent: Agent) -> None:
    async with anyio.create_task_group() as group:
        await group.start(agent.run)
        notify("READY=1")


async def _feed_watchdog() -> None:
    while True:
        notify("WATCHDOG=1")
        await anyio.sleep(_WATCHDOG_EVERY)
