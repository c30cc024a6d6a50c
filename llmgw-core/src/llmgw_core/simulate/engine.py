"""A scripted engine, and the plugin that starts it: for simulated machines only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import anyio
from pydantic import SecretStr

from llmgw_core.ports import HttpReply
from llmgw_core.spec import (
    HOOK_API,
    BinarySpec,
    Capability,
    Command,
    EngineInfo,
    Launch,
    PluginInfo,
    PortNeed,
    Probe,
    ProbeResponse,
    Probes,
    Readiness,
    Shard,
    Support,
    hookimpl,
)

NAME = "simulated"
BINARY = "simulated-engine"
KEY = "SIMULATED_KEY"


@dataclass(frozen=True)
class SimEngine:
    """What a started engine answers: 503 until it has loaded, 401 without its key."""

    model: str
    key: str
    loaded_at: float

    def answer(self, path: str, headers: Mapping[str, str]) -> HttpReply:
        """The answer to one request at the present virtual time."""
        if anyio.current_time() < self.loaded_at:
            return HttpReply(503, json.dumps({"error": {"message": "Loading model"}}))
        if path == "/health":
            return HttpReply(200, "{}")
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            return HttpReply(401, json.dumps({"error": {"message": "Invalid API Key"}}))
        if path == "/v1/models":
            return HttpReply(200, json.dumps({"data": [{"id": self.model}]}))
        return HttpReply(200, json.dumps({"choices": [{"text": "token"}]}))


@hookimpl
def llmgw_plugin_info() -> PluginInfo:
    """Who the plugin is."""
    return PluginInfo(name=NAME, kind="engine", api=HOOK_API, summary="an engine of the simulator")


@hookimpl
def llmgw_engine_info() -> EngineInfo:
    """A CPU engine with one binary, over at most two nodes."""
    return EngineInfo(
        name=NAME,
        title="Simulated engine",
        binary=BinarySpec(names=(BINARY,)),
        capabilities={Capability.CPU: Support.SUPPORTED, Capability.MULTI_NODE: Support.SUPPORTED},
        paths=("/v1/chat/completions", "/v1/completions"),
        ports=(PortNeed(name="rendezvous", ranks="leader", only_multi_node=True),),
        max_nodes=2,
    )


@hookimpl
def llmgw_engine_commands(shard: Shard, launch: Launch) -> tuple[Command, ...]:
    """One process; its argv carries what `SimEngine` needs."""
    argv = (*launch.binary, shard.served_name, str(shard.http_port))
    secrets = {KEY: launch.key} if launch.key else dict[str, SecretStr]()
    return (Command(name="engine", argv=argv, secret_env=secrets),)


@hookimpl
def llmgw_engine_probes(shard: Shard) -> Probes:
    """The three questions."""
    return Probes(
        startup=Probe(path="/health"),
        readiness=Probe(path="/v1/models"),
        inference=Probe(method="POST", path="/v1/completions", body="{}"),
        liveness=Probe(path="/health"),
    )


@hookimpl
def llmgw_engine_ready(responses: Mapping[str, ProbeResponse]) -> Readiness:
    """Ready once all three were answered with 200."""
    bad = next((name for name, response in responses.items() if response.status != 200), None)
    if bad is not None:
        return Readiness(ready=False, reason=f"{bad}: {responses[bad].status or responses[bad].error}")
    return Readiness(ready=len(responses) == 3, reason="" if len(responses) == 3 else "not asked everything")
