"""The catalog that `llmgw up --model` makes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from llmgw_core.catalog.load import LoadedCatalog
from llmgw_core.catalog.single import catalog_for_model, model_name
from llmgw_core.spec import ConfigError


@pytest.mark.parametrize(
    ("path", "name"),
    (
        ("/m/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct"),
        ("Llama-3.2-1B-Instruct-Q4_K_M.gguf", "llama-3.2-1b-instruct"),
        ("Qwen3-0.6B-IQ3_XXS.gguf", "qwen3-0.6b"),
        ("gemma-3-1b-it-BF16.gguf", "gemma-3-1b-it"),
        ("gpt-oss-20b-mxfp4.GGUF", "gpt-oss-20b"),
        ("big.Q8_0-00001-of-00003.gguf", "big"),
        ("plain", "plain"),
        ("a model (new)!.gguf", "a-model-new"),
        ("été.gguf", "t"),
        ("日本語.gguf", "model"),
        ("...gguf", "model"),
        ("x" * 300 + ".gguf", "x" * 128),
    ),
)
def test_the_name_is_the_files_without_extension_and_quantisation(path: str, name: str) -> None:
    assert model_name(path) == name


@pytest.mark.parametrize(("cpus", "given"), ((1, 1), (2, 1), (8, 7)))
def test_all_cpus_but_one_are_given(cpus: int, given: int, load: Callable[[str], LoadedCatalog]) -> None:
    loaded = load(catalog_for_model("/m/tiny.gguf", cpus=cpus))
    (model,) = loaded.catalog.models.values()
    (profile,) = model.profiles
    assert loaded.warnings == ()
    assert (model.name, model.source) == ("tiny", "/m/tiny.gguf")
    assert (profile.engine, profile.cpus, profile.max_model_len) == ("llamacpp", given, 4096)
    assert dict(profile.engine_args) == {"parallel": 2}


def test_a_path_that_is_not_utf8_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="not UTF-8"):
        catalog_for_model("/m/\udcff.gguf", cpus=2)
