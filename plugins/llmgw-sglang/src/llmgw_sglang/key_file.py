"""How SGLang gets the key that it asks every client for; it reads none from its environment."""

from __future__ import annotations

import json
from collections.abc import Mapping

from llmgw_core.spec import Launch
from pydantic import SecretStr

from llmgw_sglang.release import Release

__all__ = ["key_arguments", "key_files"]

_NAME = "engine-key.yaml"


def key_arguments(launch: Launch, release: Release) -> tuple[str, ...]:
    """What the command line says of the key; none without a key."""
    if launch.key is None:
        return ()
    if release.has("--config"):
        # Two items: SGLang looks for the bare word and passes over `--config=FILE` without a word,
        # so that the engine would ask nobody for a key.
        return ("--config", _path(launch))
    # Before 0.5.4 there is no other way: every user of the node can read it from the process list.
    return (f"--api-key={launch.key.get_secret_value()}",)


def key_files(launch: Launch, release: Release) -> Mapping[str, SecretStr]:
    """The files that `key_arguments` names."""
    if launch.key is None or not release.has("--config"):
        return {}
    # In quotes (what JSON writes is YAML too): a key may look like a number, and YAML would make it one.
    return {_path(launch): SecretStr(f"api-key: {json.dumps(launch.key.get_secret_value())}\n")}


def _path(launch: Launch) -> str:
    return f"{launch.work_dir}/{_NAME}"
