"""The catalog that `llmgw up --model FILE` makes for one file."""

from __future__ import annotations

import re
from pathlib import PurePath

from llmgw_core.spec.errors import ConfigError

CONTEXT = 4096
PARALLEL = 2

# Q4_K_M, IQ3_XXS, BF16… behind a dot, dash or underscore: how llama.cpp's tools name their files.
_QUANTISATION = re.compile(r"[.\-_](?:i?q\d+(?:_[a-z0-9]+)*|bf16|f16|f32|fp16|fp32|mxfp4|tq\d_\d)$")
_SPLIT = re.compile(r"-\d{5}-of-\d{5}$")
_UNSUITED = re.compile(r"[^a-z0-9._-]+")
_MAX_NAME = 128


def model_name(path: str) -> str:
    """The name of the model in a file: its name in lower case, without extension and quantisation."""
    stem = PurePath(path).name.lower().removesuffix(".gguf")
    name = _UNSUITED.sub("-", _QUANTISATION.sub("", _SPLIT.sub("", stem))).strip("._-")
    return name[:_MAX_NAME].rstrip("._-") or "model"


def catalog_for_model(path: str, *, cpus: int, engine: str = "llamacpp") -> str:
    """YAML text of a catalog with one CPU profile for the model file at `path`.

    The engine gets all CPUs but one, at least one, and serves two requests at a time.
    Raises ConfigError for a path that no YAML file can hold: one that is not UTF-8.
    """
    threads = max(1, cpus - 1)
    return (
        "# Made by `llmgw up --model`.\n"
        "version: 1\n"
        "models:\n"
        f"  {_quoted(model_name(path))}:\n"
        f"    source: {_quoted(path)}\n"
        "    profiles:\n"
        "      - name: cpu\n"
        f"        engine: {_quoted(engine)}\n"
        f"        cpus: {threads}\n"
        f"        max_model_len: {CONTEXT}\n"
        f"        engine_args: {{parallel: {PARALLEL}}}\n"
    )


def _quoted(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError("the path is not UTF-8", where=ascii(text), fix="rename the file") from None
    return '"' + "".join(_escaped(letter) for letter in text) + '"'


def _escaped(letter: str) -> str:
    if " " <= letter <= "~" and letter not in '"\\':
        return letter
    return f"\\U{ord(letter):08X}"
