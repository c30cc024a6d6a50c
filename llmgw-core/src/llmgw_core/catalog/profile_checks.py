"""What must hold between the keys of one profile, and between it and its engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from llmgw_core.catalog.draft import DraftProfile
from llmgw_core.catalog.fault import Fault
from llmgw_core.catalog.schema import ProfileFile
from llmgw_core.catalog.words import nearest
from llmgw_core.spec.engine import Capability, EngineInfo, Support, version_key
from llmgw_core.spec.shard import ModelKind
from llmgw_core.spec.versions import parse_version_range

OWNED_ENV = "LLMGW_"
_SIZES = {"nodes", "gpus_per_node", "gpu_class", "tensor_parallel", "pipeline_parallel", "data_parallel"}
_KIND_NEEDS: dict[ModelKind, Capability] = {"embedding": Capability.EMBEDDING, "rerank": Capability.RERANK}


def check_profile(draft: DraftProfile, kind: ModelKind, engines: Mapping[str, EngineInfo]) -> Iterator[Fault]:
    """Every fault of a profile, as far as the keys that it depends on could be read."""
    if not draft.broken & _SIZES:
        yield from _sizes(draft)
    yield from _environment(draft)
    info = engines.get(draft.file.engine or "")
    if info is None:
        if "engine" not in draft.broken:
            yield _no_engine(draft, engines)
        return
    for check in _ENGINE_CHECKS:
        yield from check(draft, info)
    yield from _serves(draft, info, kind)


def _sizes(draft: DraftProfile) -> Iterator[Fault]:
    file = draft.file
    product = file.tensor_parallel * file.pipeline_parallel * file.data_parallel
    if file.gpus_per_node == 0:
        yield from _cpu_sizes(draft, product)
        return
    if file.gpu_class is None:
        yield Fault(
            draft.path,
            "'gpu_class' is missing: GPUs of two classes never serve one replica",
            "add `gpu_class:` as `llmgw agent inventory` shows it, like h100-80g",
        )
    gpus = file.nodes * file.gpus_per_node
    if gpus != product:
        message = (
            f"nodes {file.nodes} × gpus_per_node {file.gpus_per_node} = {gpus} GPUs, but tensor_parallel "
            f"{file.tensor_parallel} × pipeline_parallel {file.pipeline_parallel} × data_parallel "
            f"{file.data_parallel} = {product}"
        )
        yield Fault((*draft.path, "gpus_per_node"), message, _sizes_fix(file, gpus))


def _sizes_fix(file: ProfileFile, gpus: int) -> str:
    others = file.pipeline_parallel * file.data_parallel
    if gpus % others == 0:
        return f"set tensor_parallel: {gpus // others}, or other sizes whose product is {gpus}"
    return f"choose sizes whose product is {gpus}"


def _cpu_sizes(draft: DraftProfile, product: int) -> Iterator[Fault]:
    if product != 1:
        message = f"a CPU profile (gpus_per_node 0) has no parallel sizes, but their product is {product}"
        yield Fault(
            draft.path,
            message,
            "remove tensor_parallel, pipeline_parallel and data_parallel, or set gpus_per_node",
        )
    if draft.file.gpu_class is not None:
        yield Fault(
            (*draft.path, "gpu_class"),
            "'gpu_class' is given, but gpus_per_node is 0",
            "set gpus_per_node, or remove gpu_class",
        )


def _environment(draft: DraftProfile) -> Iterator[Fault]:
    for name in draft.file.env:
        if name.startswith(OWNED_ENV):
            message = f"the variable {name} belongs to llmgw"
            yield Fault((*draft.path, "env", name), message, "choose a name without LLMGW_", at_key=True)


def _no_engine(draft: DraftProfile, engines: Mapping[str, EngineInfo]) -> Fault:
    name = draft.file.engine
    installed = ", ".join(sorted(engines)) or "none"
    if name is None:
        return Fault(draft.path, "'engine' is missing", f"add `engine:`; installed: {installed}", at_key=True)
    message = f"no plugin for the engine {name!r} is installed; installed: {installed}"
    meant = nearest(name, engines)
    install = f"pip install llmgw-{name}, and see `llmgw plugins` for one that was refused"
    fix = f"did you mean {meant!r}? Otherwise {install}" if meant else install
    return Fault((*draft.path, "engine"), message, fix)


def _nodes(draft: DraftProfile, info: EngineInfo) -> Iterator[Fault]:
    file, path = draft.file, (*draft.path, "nodes")
    if file.nodes == 1 or draft.broken & _SIZES:
        return
    if not info.supports(Capability.MULTI_NODE):
        yield Fault(
            path, f"{info.title} cannot run over several nodes, but nodes is {file.nodes}", "set nodes: 1"
        )
    elif file.nodes > info.max_nodes:
        yield Fault(path, f"{info.title} runs over at most {info.max_nodes} nodes, not {file.nodes}")
    elif file.tensor_parallel > max(file.gpus_per_node, 1) and not info.supports(Capability.TP_ACROSS_NODES):
        message = (
            f"a tensor-parallel group of {file.tensor_parallel} would span nodes of "
            f"{file.gpus_per_node} GPUs, which {info.title} cannot"
        )
        fix = f"set tensor_parallel to at most {file.gpus_per_node} and use pipeline_parallel between nodes"
        yield Fault((*draft.path, "tensor_parallel"), message, fix)


def _hardware(draft: DraftProfile, info: EngineInfo) -> Iterator[Fault]:
    if draft.broken & _SIZES:
        return
    on_gpu = draft.file.gpus_per_node > 0
    needed = Capability.GPU if on_gpu else Capability.CPU
    if info.capabilities.get(needed) is Support.UNSUPPORTED:
        words = "does not run on GPUs" if on_gpu else "does not run without GPUs"
        fix = "set gpus_per_node: 0" if on_gpu else "set gpu_class, gpus_per_node and tensor_parallel"
        yield Fault((*draft.path, "gpus_per_node"), f"{info.title} {words}", fix)


def _version(draft: DraftProfile, info: EngineInfo) -> Iterator[Fault]:
    for _, bound in parse_version_range(draft.file.engine_version or "").clauses:
        if not version_key(info, bound):
            message = f"{bound!r} is not a version of {info.title}"
            yield Fault(
                (*draft.path, "engine_version"), message, "write it as `llmgw agent inventory` shows it"
            )


def _lora(draft: DraftProfile, info: EngineInfo) -> Iterator[Fault]:
    if draft.file.lora and info.capabilities.get(Capability.LORA) is Support.UNSUPPORTED:
        yield Fault((*draft.path, "lora"), f"{info.title} serves no LoRA adapters", "remove lora")


def _serves(draft: DraftProfile, info: EngineInfo, kind: ModelKind) -> Iterator[Fault]:
    needed = _KIND_NEEDS.get(kind)
    if needed and info.capabilities.get(needed) is Support.UNSUPPORTED:
        message = f"{info.title} does not serve models of kind {kind}"
        yield Fault((*draft.path, "engine"), message, "choose another engine")


_ENGINE_CHECKS: tuple[Callable[[DraftProfile, EngineInfo], Iterator[Fault]], ...] = (
    _version,
    _nodes,
    _hardware,
    _lora,
)
