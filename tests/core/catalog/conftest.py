"""Engines to load catalogs with, and loading that gives the problems instead of raising them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from llmgw_core.catalog.load import LoadedCatalog, load_catalog
from llmgw_core.spec import BinarySpec, Capability, CatalogError, EngineInfo, Problem, Support

YES, NO = Support.SUPPORTED, Support.UNSUPPORTED


def engine(
    name: str, title: str, max_nodes: int = 1, version_pattern: str = r"\d+", **capabilities: Support
) -> EngineInfo:
    """An engine whose capabilities are given by name."""
    return EngineInfo(
        name=name,
        title=title,
        binary=BinarySpec(names=(name,)),
        paths=("/v1/chat/completions",),
        capabilities={Capability(key): value for key, value in capabilities.items()},
        max_nodes=max_nodes,
        version_pattern=version_pattern,
    )


@pytest.fixture
def engines() -> Mapping[str, EngineInfo]:
    """One for many nodes, one for pipelines between nodes, two for a single node: any, and CPU only."""
    known = (
        engine("vllm", "vLLM", 4, gpu=YES, cpu=NO, multi_node=YES, tp_across_nodes=YES, lora=YES),
        engine("piped", "Piped", 2, gpu=YES, multi_node=YES, tp_across_nodes=NO),
        engine("llamacpp", "llama.cpp", cpu=YES, gpu=YES, multi_node=NO, lora=NO, embedding=NO),
        engine("cpuonly", "CPU only", version_pattern=r"(?<=b)\d+", cpu=YES, gpu=NO),
    )
    return {info.name: info for info in known}


@pytest.fixture
def load(engines: Mapping[str, EngineInfo]) -> Callable[[str | bytes], LoadedCatalog]:
    """Load a catalog called c.yaml."""
    return lambda text: load_catalog(text, file="c.yaml", engines=engines)


@pytest.fixture
def problems_of(load: Callable[[str | bytes], LoadedCatalog]) -> Callable[[str | bytes], list[Problem]]:
    """Every problem of a catalog that is refused."""

    def refused(text: str | bytes) -> list[Problem]:
        with pytest.raises(CatalogError) as caught:
            load(text)
        return list(caught.value.problems)

    return refused
