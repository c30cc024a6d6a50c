"""An engine driver for llmgw, to copy: runs `example-server`, a made-up OpenAI-compatible server.

A plugin only describes: its hooks open no file, start no process and keep no state. The agent does all that.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

from llmgw_core import spec
from llmgw_core.spec import Capability, Support

ENGINE = spec.EngineInfo(
    name="example",
    title="Example server",
    binary=spec.BinarySpec(
        names=("example-server",),
        version_pattern=r"example-server (\d+\.\d+)",
        install_hint="install your engine and put example-server on PATH",
    ),
    capabilities={
        **dict.fromkeys(Capability, Support.UNSUPPORTED),
        Capability.CPU: Support.SUPPORTED,
        Capability.KEY_BY_ENVIRONMENT: Support.SUPPORTED,
    },
    paths=("/v1/chat/completions", "/v1/completions"),
    failure_patterns=(spec.FailurePattern(pattern="cannot load model", failure="configuration"),),
)
FILES = resources.files("llmgw_example").joinpath("flags").iterdir()
TABLES = spec.flag_tables({file.name: file.read_text("utf-8") for file in FILES}, ENGINE)
OWN_FLAGS = ("--model", "--name", "--host", "--port", "--context")


@spec.hookimpl
def llmgw_plugin_info() -> spec.PluginInfo:
    """Who the plugin is; the name is that of the entry point in pyproject.toml."""
    return spec.PluginInfo(name="example", kind="engine", api=spec.HOOK_API, summary="a driver to copy")


@spec.hookimpl
def llmgw_engine_info() -> spec.EngineInfo:
    """The facts. Say only what was tried."""
    return ENGINE


@spec.hookimpl
def llmgw_engine_flags() -> tuple[spec.FlagTable, ...]:
    """What each release takes."""
    return TABLES


@spec.hookimpl
def llmgw_engine_commands(shard: spec.Shard, launch: spec.Launch) -> tuple[spec.Command, ...]:
    """The one process of a shard. Raises Unsupported for what example-server cannot do."""
    spec.refuse_unsupported(ENGINE, shard, takes=("max_model_len",), variables=("EXAMPLE_API_KEY",))
    profile = shard.profile
    argv = (
        *launch.binary,
        f"--model={shard.source}",  # in one piece, so that a value that begins with a dash stays a value
        f"--name={shard.served_name}",
        f"--host={shard.address}",
        f"--port={shard.http_port}",
        *((f"--context={profile.max_model_len}",) if profile.max_model_len else ()),
        *spec.operator_arguments(profile, ENGINE, TABLES, launch.version, owned=OWN_FLAGS),
    )
    key = {"EXAMPLE_API_KEY": launch.key} if launch.key else {}
    return (spec.Command(name="engine", argv=argv, secret_env=key, grace=shard.timeouts.kill),)


@spec.hookimpl
def llmgw_engine_probes(shard: spec.Shard) -> spec.Probes:
    """Up, loaded under the right name, able to infer."""
    return spec.openai_probes(shard)


@spec.hookimpl
def llmgw_engine_ready(shard: spec.Shard, responses: Mapping[str, spec.ProbeResponse]) -> spec.Readiness:
    """Ready only when all three answers are there and good."""
    return spec.openai_ready(shard, responses)
