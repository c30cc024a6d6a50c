"""The processes of one rank of vLLM."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from llmgw_core.spec import Command, Launch, Profile, Shard, Unsupported, WaitFor

from llmgw_vllm import ray_cluster
from llmgw_vllm.arguments import operator_flags
from llmgw_vllm.environment import GUARD_CLASS, rank_environment, server_environment
from llmgw_vllm.hardware import check_gpus
from llmgw_vllm.release import Release
from llmgw_vllm.topology import check_shape, launch_mode, parallel_flags, rendezvous_port, serves_http

__all__ = ["commands"]

# An adapter's name is followed by "=", and one that begins with a brace would be read as JSON.
_ADAPTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


def commands(shard: Shard, launch: Launch) -> tuple[Command, ...]:
    """Sidecars and the engine of one rank. Raises Unsupported(field, reason)."""
    profile, release = shard.profile, Release.of(launch.version)
    check_shape(profile, release)
    check_gpus(profile, launch)
    _check_names(shard)
    env = rank_environment(shard, launch)
    # Also for ranks without a server of their own: what is refused must not depend on the rank.
    flags = _flags(shard, launch, release)
    if profile.nodes > 1 and launch_mode(profile) == "ray":
        if not serves_http(shard):
            return (ray_cluster.join(shard, launch, env),)
        server = _server(shard, launch, flags, env)
        return (ray_cluster.head(shard, launch, env), ray_cluster.at_head(server, shard, launch))
    return (_server(shard, launch, flags, env) if serves_http(shard) else _worker(shard, launch, flags, env),)


def _server(shard: Shard, launch: Launch, flags: tuple[str, ...], env: dict[str, str]) -> Command:
    return Command(
        name="engine",
        argv=(*launch.binary, "serve", shard.source, *flags),
        env={**env, **server_environment(launch)},
        # In the environment, so that no process list shows it.
        secret_env={"VLLM_API_KEY": launch.key} if launch.key else {},
        grace=shard.timeouts.kill,
    )


def _worker(shard: Shard, launch: Launch, flags: tuple[str, ...], env: dict[str, str]) -> Command:
    # A headless rank has no HTTP, so it needs no key. It would wait for the leader for as long as torch
    # likes; the agent's wait has an end and says what was missing.
    wait = WaitFor(host=shard.leader_address, port=rendezvous_port(shard), timeout=shard.timeouts.load)
    argv = (*launch.binary, "serve", shard.source, *flags)
    return Command(name="engine", argv=argv, env=env, wait_for=wait, grace=shard.timeouts.kill)


def _check_names(shard: Shard) -> None:
    if shard.kind not in {"chat", "embedding"}:
        raise Unsupported("kind", f"vLLM under llmgw serves chat and embedding models, not {shard.kind}")
    path = PurePosixPath(shard.source).is_absolute() and "\0" not in shard.source
    if not path and _HUB_ID.fullmatch(shard.source) is None:
        raise Unsupported(
            "source", "vLLM needs the absolute path of a model's directory, or a hub's owner/name"
        )
    if not shard.served_name or "\0" in shard.served_name:
        raise Unsupported("name", "an empty name, or one with a NUL character, cannot be served")
    for name, adapter in sorted(shard.profile.lora.items()):
        if _ADAPTER.fullmatch(name) is None:
            raise Unsupported(f"lora.{name}", "not a name that vLLM can serve an adapter under")
        if not PurePosixPath(adapter).is_absolute() or "\0" in adapter:
            raise Unsupported(f"lora.{name}", "vLLM needs the absolute path of the adapter's directory")


def _flags(shard: Shard, launch: Launch, release: Release) -> tuple[str, ...]:
    profile = shard.profile
    return (
        # One name: answers carry the first, and aliases are the gateway's business.
        f"--served-model-name={shard.served_name}",
        f"--host={shard.address}",
        f"--port={shard.http_port}",
        *parallel_flags(shard),
        *_model_flags(profile, release),
        *_kind_flags(shard, release),
        *_quiet_flags(release),
        *((f"--middleware={GUARD_CLASS}",) if launch.key and serves_http(shard) else ()),
        *operator_flags(profile.engine_args, release, allow_remote_code=profile.allow_remote_code),
    )


def _model_flags(profile: Profile, release: Release) -> tuple[str, ...]:
    flags = [f"--max-model-len={profile.max_model_len}"] if profile.max_model_len else []
    for field, flag, value in (
        ("quantization", "--quantization", profile.quantization),
        ("kv_cache_dtype", "--kv-cache-dtype", profile.kv_cache_dtype),
    ):
        if value is not None:
            flags.append(_checked(release, field, f"{flag}={value}"))
    if profile.lora:
        adapters = (f"{name}={path}" for name, path in sorted(profile.lora.items()))
        flags += ["--enable-lora", "--lora-modules", *adapters]
    return tuple(flags)


def _checked(release: Release, field: str, item: str) -> str:
    if "\0" in item:
        raise Unsupported(field, "a NUL character cannot be passed to a program")
    if fault := release.fault((item,)):
        raise Unsupported(field, fault)
    return item


def _kind_flags(shard: Shard, release: Release) -> tuple[str, ...]:
    if shard.kind == "chat":
        return ()
    return ("--runner=pooling", "--convert=embed") if release.has("--runner") else ("--task=embed",)


def _quiet_flags(release: Release) -> tuple[str, ...]:
    """Nothing of a request in the log, no line for each probe, and no pages of the engine's own."""
    # Before it became a thing to ask for, every prompt was logged.
    silent = () if release.has("--enable-log-requests") else ("--disable-log-requests",)
    return (*silent, "--disable-uvicorn-access-log", "--disable-fastapi-docs")
