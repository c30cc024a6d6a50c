"""The process of one rank of SGLang."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from llmgw_core.spec import Command, Launch, Profile, Shard, Unsupported, WaitFor

from llmgw_sglang.arguments import operator_flags
from llmgw_sglang.environment import rank_environment
from llmgw_sglang.hardware import check_gpus
from llmgw_sglang.key_file import key_arguments, key_files
from llmgw_sglang.release import Release
from llmgw_sglang.topology import check_shape, parallel_flags, rendezvous_port, serves_http

__all__ = ["engine"]

_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
# An adapter's name is followed by "=", and asked for as MODEL:NAME.
_ADAPTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@-]*")
_CPU_REQUESTS = 4
_CPU_CONTEXT = 4096
"""What the cache of an engine on CPUs holds where the profile does not say: requests, and tokens of each."""
_WORKER_GRACE = 15.0
"""Seconds that a worker gets beyond rank 0: it passes over TERM and ends when rank 0 tells it to."""


def engine(shard: Shard, launch: Launch) -> Command:
    """The engine of one rank. Raises Unsupported(field, reason) for what SGLang cannot do."""
    profile, release = shard.profile, Release.of(launch.version)
    check_shape(profile, release)
    check_gpus(profile, launch)
    _check_names(shard)
    # Also of a worker: what is refused must not depend on the rank.
    argv, env = (*launch.binary, "serve", *_flags(shard, release)), rank_environment(shard, launch)
    return (_server if serves_http(shard) else _worker)(shard, launch, argv, env)


def _server(shard: Shard, launch: Launch, argv: tuple[str, ...], env: dict[str, str]) -> Command:
    release = Release.of(launch.version)
    return Command(
        name="engine",
        argv=(*argv, *key_arguments(launch, release)),
        env=env,
        secret_files=key_files(launch, release),
        grace=shard.timeouts.kill,
    )


def _worker(shard: Shard, _: Launch, argv: tuple[str, ...], env: dict[str, str]) -> Command:
    # It answers nobody's requests, so it needs no key. It would wait for the leader for as long as torch
    # likes; the agent's wait has an end and says what was missing. The leader only listens after its
    # imports, so the time for loading is the limit.
    wait = WaitFor(host=shard.leader_address, port=rendezvous_port(shard), timeout=shard.timeouts.load)
    grace = shard.timeouts.kill + _WORKER_GRACE
    return Command(name="engine", argv=argv, env=env, wait_for=wait, grace=grace)


def _check_names(shard: Shard) -> None:
    if shard.kind != "chat":
        raise Unsupported("kind", f"SGLang under llmgw serves chat models, not {shard.kind}")
    path = PurePosixPath(shard.source).is_absolute() and "\0" not in shard.source
    if not path and _HUB_ID.fullmatch(shard.source) is None:
        raise Unsupported(
            "source", "SGLang needs the absolute path of a model's directory, or a hub's owner/name"
        )
    # SGLang reads a request for MODEL:ADAPTER as one for the adapter.
    if not shard.served_name or "\0" in shard.served_name or ":" in shard.served_name:
        raise Unsupported("name", "an empty name, or one with a colon or NUL character, cannot be served")
    for name, adapter in sorted(shard.profile.lora.items()):
        if _ADAPTER.fullmatch(name) is None:
            raise Unsupported(f"lora.{name}", "not a name that SGLang can serve an adapter under")
        if not PurePosixPath(adapter).is_absolute() or "\0" in adapter:
            raise Unsupported(f"lora.{name}", "SGLang needs the absolute path of the adapter's directory")


def _flags(shard: Shard, release: Release) -> tuple[str, ...]:
    profile = shard.profile
    operators = operator_flags(profile.engine_args, release, allow_remote_code=profile.allow_remote_code)
    return (
        f"--model-path={shard.source}",
        f"--served-model-name={shard.served_name}",
        f"--host={shard.address}",
        f"--port={shard.http_port}",
        *parallel_flags(shard, release),
        *_model_flags(profile, release),
        *(_cpu_flags(profile, operators) if not profile.gpus_per_node else ()),
        "--enable-metrics",
        # One level lower it writes all its settings to the log, the key among them.
        "--log-level=warning",
        *(item for items in operators.values() for item in items),
    )


def _model_flags(profile: Profile, release: Release) -> tuple[str, ...]:
    flags = [f"--context-length={profile.max_model_len}"] if profile.max_model_len else []
    for field, flag, value in (
        ("quantization", "--quantization", profile.quantization),
        ("kv_cache_dtype", "--kv-cache-dtype", profile.kv_cache_dtype),
    ):
        if value is not None:
            flags.append(_checked(release, field, f"{flag}={value}"))
    return (*flags, *_lora_flags(profile, release))


def _checked(release: Release, field: str, item: str) -> str:
    if "\0" in item:
        raise Unsupported(field, "a NUL character cannot be passed to a program")
    if fault := release.fault((item,)):
        raise Unsupported(field, fault)
    return item


def _lora_flags(profile: Profile, release: Release) -> tuple[str, ...]:
    if not profile.lora:
        return ()
    # Before it became a switch of its own, the paths alone turned it on.
    switch = ("--enable-lora",) if release.has("--enable-lora") else ()
    return (*switch, "--lora-paths", *(f"{name}={path}" for name, path in sorted(profile.lora.items())))


def _cpu_flags(profile: Profile, operators: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    if "--max-total-tokens" in operators:
        return ("--device=cpu",)
    # Without a limit every rank takes its share of the whole machine's memory; two were seen to be too many.
    tokens = _CPU_REQUESTS * (profile.max_model_len or _CPU_CONTEXT)
    return ("--device=cpu", f"--max-total-tokens={tokens}")
