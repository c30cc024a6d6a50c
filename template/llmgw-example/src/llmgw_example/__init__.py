"""An engine driver for llmgw, to copy: runs `example-server`, a made-up OpenAI-compatible server.

A plugin only describes: it opens no file, starts no process and keeps no state. The agent does all that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from llmgw_core.spec import (
    HOOK_API,
    BinarySpec,
    Capability,
    Command,
    EngineArg,
    EngineInfo,
    FailurePattern,
    Launch,
    PluginInfo,
    Probe,
    ProbeResponse,
    Probes,
    Readiness,
    Shard,
    Support,
    Unsupported,
    hookimpl,
)

RESERVED = frozenset({"model", "name", "host", "port", "context"})
"""Flags that llmgw sets itself; an operator who sets them too would get a server that nobody finds."""


@hookimpl
def llmgw_plugin_info() -> PluginInfo:
    """Say who the plugin is; the name is that of the entry point in pyproject.toml."""
    return PluginInfo(
        name="example", kind="engine", api=HOOK_API, summary="example-server: a driver to copy for your own"
    )


@hookimpl
def llmgw_engine_info() -> EngineInfo:
    """Give the facts. Say only what was tried: what is left out counts as unknown, and unknown as no."""
    return EngineInfo(
        name="example",
        title="Example server",
        binary=BinarySpec(
            names=("example-server",),
            version_pattern=r"example-server (\d+\.\d+)",
            install_hint="install your engine and put example-server on PATH",
        ),
        capabilities={
            Capability.CPU: Support.SUPPORTED,
            Capability.GPU: Support.UNSUPPORTED,
            Capability.MULTI_NODE: Support.UNSUPPORTED,
            Capability.LORA: Support.UNSUPPORTED,
            Capability.KEY_BY_ENVIRONMENT: Support.SUPPORTED,
        },
        paths=("/v1/chat/completions",),
        failure_patterns=(
            FailurePattern(
                pattern=r"cannot load model (.*)",
                failure="configuration",
                hint="check that the path of the model exists on this node",
            ),
            FailurePattern(pattern=r"(?i)address already in use", failure="port_in_use"),
        ),
    )


@hookimpl
def llmgw_engine_commands(shard: Shard, launch: Launch) -> tuple[Command, ...]:
    """Give the one process of a shard. Raises Unsupported for what example-server cannot do."""
    _refuse_unsupported(shard)
    argv = (
        *launch.binary,
        # `--flag=value` keeps a value that begins with a dash from being read as a flag.
        f"--model={shard.source}",
        f"--name={shard.served_name}",
        f"--host={shard.address}",
        f"--port={shard.http_port}",
        *((f"--context={shard.profile.max_model_len}",) if shard.profile.max_model_len else ()),
        *(flag for name, value in sorted(shard.profile.engine_args.items()) for flag in _flags(name, value)),
    )
    # A key on the command line could be read by every user of the machine.
    secrets = {"EXAMPLE_API_KEY": launch.key} if launch.key else {}
    return (
        Command(
            name="engine",
            argv=argv,
            env=shard.profile.env,
            secret_env=secrets,
            grace=shard.timeouts.kill,
        ),
    )


@hookimpl
def llmgw_engine_probes(shard: Shard) -> Probes:
    """Give the questions: up, loaded under the right name, able to infer; later only: still up."""
    message = {"role": "user", "content": "Hi"}
    one_token = {"model": shard.served_name, "messages": [message], "max_tokens": 1}
    return Probes(
        startup=Probe(path="/health"),
        readiness=Probe(path="/v1/models"),
        inference=Probe(method="POST", path="/v1/chat/completions", body=json.dumps(one_token), timeout=60.0),
        liveness=Probe(path="/health", timeout=10.0),
    )


@hookimpl
def llmgw_engine_ready(shard: Shard, responses: Mapping[str, ProbeResponse]) -> Readiness:
    """Judge the answers: ready only when all three are there, and say what is missing when not."""
    for probe in ("startup", "readiness", "inference"):
        reason = _not_ready(probe, shard, responses.get(probe))
        if reason is not None:
            return Readiness(ready=False, reason=reason)
    return Readiness(ready=True)


def _refuse_unsupported(shard: Shard) -> None:
    if shard.world > 1:
        raise Unsupported("nodes", "example-server runs on one node")
    if shard.profile.gpus_per_node:
        raise Unsupported("gpus_per_node", "example-server does not use GPUs")
    if shard.kind != "chat":
        raise Unsupported("kind", f"example-server serves chat models, not {shard.kind}")
    for field in ("quantization", "kv_cache_dtype", "launch_mode", "lora"):
        if getattr(shard.profile, field):
            raise Unsupported(field, f"example-server has no {field}")
    for name in sorted(RESERVED & shard.profile.engine_args.keys()):
        raise Unsupported(f"engine_args.{name}", "llmgw sets this flag itself")


def _flags(name: str, value: EngineArg) -> tuple[str, ...]:
    """One engine argument as flags: None and True are a bare switch, False is no flag at all."""
    if value is None or value is True:
        return (f"--{name}",)
    if value is False:
        return ()
    values = value if isinstance(value, tuple) else (value,)
    return tuple(f"--{name}={item}" for item in values)


def _not_ready(probe: str, shard: Shard, response: ProbeResponse | None) -> str | None:
    """Why the answer to one probe is not good enough yet, or None."""
    if response is None:
        return f"{probe} was not asked yet"
    if response.status != 200:
        return f"{probe}: {response.error or f'HTTP {response.status}'}"
    try:
        if probe == "readiness":
            return _name_fault(shard.served_name, json.loads(response.body))
        if probe == "inference":
            return None if json.loads(response.body)["choices"] else "inference: no choices in the answer"
    except (ValueError, KeyError, TypeError):
        return f"{probe}: the answer is not what an OpenAI-compatible server sends"
    return None


def _name_fault(name: str, models: dict[str, list[dict[str, str]]]) -> str | None:
    served = [model["id"] for model in models["data"]]
    return None if name in served else f"readiness: serves {', '.join(served) or 'nothing'}, not {name}"
