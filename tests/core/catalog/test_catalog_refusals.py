"""Every refusal of a catalog stands at its line and column; `▶` marks the place in the texts below."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from llmgw_core.spec import Problem

Refused = Callable[[str | bytes], list[Problem]]

GPU = "gpu_class: h100-80g, gpus_per_node: 2, tensor_parallel: 2"


def model(keys: str = "", profile: str = "engine: llamacpp") -> str:
    """A catalog with the model `m`, some keys of it and its only profile."""
    item = f"▶{{{profile[1:]}}}" if profile.startswith("▶") else f"{{{profile}}}"
    return f"version: 1\nmodels:\n  m:\n    source: /m\n    {keys}\n    profiles:\n      - {item}\n"


def two(first: str, second: str = "") -> str:
    """A catalog with the models `a` and `b`, with some keys of theirs."""
    body = "source: /m, profiles: [{engine: llamacpp}]"
    return f"version: 1\nmodels:\n  a: {{{body}, {first}}}\n  b: {{{body}, {second}}}\n"


CASES = {
    "unknown key at the top": ("version: 1\n▶modls: {}\nmodels: {}\n", "modls", "did you mean 'models'"),
    "unknown key of a model": (model("▶alias: [x]"), "models.m.alias", "did you mean 'aliases'"),
    "unknown key of a profile": (
        model(profile="engine: llamacpp, ▶gpu_per_node: 0"),
        "models.m.profiles[0].gpu_per_node",
        "did you mean 'gpus_per_node'",
    ),
    "unknown key of a part": (
        model("scaling: {▶min_replica: 1}"),
        "models.m.scaling.min_replica",
        "did you mean 'min_replicas'",
    ),
    "unknown key that resembles none": (
        model("limits: {▶zebra: 1}"),
        "models.m.limits.zebra",
        "known keys: max_inflight, queue_size, queue_timeout",
    ),
    "unknown key of the defaults": (
        "version: 1\ndefaults: {▶name: x}\nmodels: {}",
        "defaults.name",
        "'name' is not known",
    ),
    "version of another format": ("version: ▶2\nmodels: {}", "version", "has to be 1"),
    "no version": ("▶models: {}\n", "", "'version' is missing"),
    "no source": (
        "version: 1\nmodels:\n  ▶m: {profiles: [{engine: llamacpp}]}",
        "models.m",
        "'source' is missing",
    ),
    "no profiles": ("version: 1\nmodels:\n  ▶m: {source: /m}", "models.m", "'profiles' is missing"),
    "empty profiles": (
        "version: 1\nmodels:\n  m: {source: /m, ▶profiles: []}",
        "models.m.profiles",
        "list of at least one",
    ),
    "a profile that is no mapping": (
        "version: 1\nmodels:\n  m: {source: /m, profiles: [▶cpu]}",
        "models.m.profiles[0]",
        "has to be a mapping",
    ),
    "a model that is no mapping": ("version: 1\nmodels:\n  m: ▶7\n", "models.m", "has to be a mapping"),
    "models that are a list": ("version: 1\n▶models: [m]\n", "models", "has to be a mapping, not a list"),
    "a name with a space": (
        "version: 1\nmodels:\n  ▶my model: {source: /m, profiles: [{engine: llamacpp}]}",
        "models.my model",
        "letters, digits and . _ - : / only",
    ),
    "a name that climbs": (
        "version: 1\nmodels:\n  ▶a/../b: {source: /m, profiles: [{engine: llamacpp}]}",
        "models.a/../b",
        "letters, digits",
    ),
    "a name without end": (
        f"version: 1\nmodels:\n  ▶{'a' * 129}: {{source: /m, profiles: [{{engine: llamacpp}}]}}",
        f"models.{'a' * 129}",
        "at most 128",
    ),
    "a bare number as duration": (
        model(profile="engine: llamacpp, load_timeout: ▶600"),
        "models.m.profiles[0].load_timeout",
        "no unit; write for instance 600s",
    ),
    "nonsense as duration": (
        model("timeouts: {total: ▶soon}"),
        "models.m.timeouts.total",
        "'soon' is not a duration",
    ),
    "a negative duration": (
        model("stop_on_client_after: ▶-5s"),
        "models.m.stop_on_client_after",
        "'-5s' is not a duration",
    ),
    "zero where it makes no sense": (
        model(profile="engine: llamacpp, start_timeout: ▶0s"),
        "models.m.profiles[0].start_timeout",
        "greater than 0",
    ),
    "a duration beyond all bounds": (
        model("stop_on_client_after: ▶" + "9" * 400 + "d"),
        "models.m.stop_on_client_after",
        "less than or equal",
    ),
    "a size without unit": (
        model(profile="engine: llamacpp, memory: ▶8"),
        "models.m.profiles[0].memory",
        "like 8GiB",
    ),
    "a size beyond all bounds": (
        model(profile="engine: llamacpp, memory: ▶" + "9" * 400 + "TiB"),
        "models.m.profiles[0].memory",
        "",
    ),
    "text for a number": (
        model(profile='engine: llamacpp, cpus: ▶"4"'),
        "models.m.profiles[0].cpus",
        "has to be a whole number, not text",
    ),
    "true for a number": (
        model(profile="engine: llamacpp, nodes: ▶true"),
        "models.m.profiles[0].nodes",
        "has to be a whole number",
    ),
    "yes for true": (
        model(profile="engine: llamacpp, allow_remote_code: ▶yes"),
        "models.m.profiles[0].allow_remote_code",
        "has to be true or false, not text",
    ),
    "a word that is not offered": (
        model("on_lost: ▶replce"),
        "models.m.on_lost",
        "one of 'replace' or 'wait' (did you mean 'replace'?)",
    ),
    "text for a list": (model("aliases: ▶gpt"), "models.m.aliases", "has to be a list, not text"),
    "a list for a flag within a list": (
        model(profile="engine: llamacpp, engine_args: {▶x: [[1]]}"),
        "models.m.profiles[0].engine_args.x",
        "text, a number, true or false, or a list",
    ),
    "a flag with its dashes": (
        model(profile="engine: llamacpp, engine_args: {▶--x: 1}"),
        "models.m.profiles[0].engine_args.--x",
        "without its dashes",
    ),
    "a flag that smuggles its value": (
        model(profile='engine: llamacpp, engine_args: {▶"x=1 --host": 1}'),
        "models.m.profiles[0].engine_args.x=1 --host",
        "letters, digits and . _ - only",
    ),
    "a NUL in a value": (
        model(profile='engine: llamacpp, env: {A: ▶"\\0"}'),
        "models.m.profiles[0].env.A",
        "NUL",
    ),
    "a variable that is llmgw's": (
        model(profile="engine: llamacpp, env: {▶LLMGW_SPEC: x}"),
        "models.m.profiles[0].env.LLMGW_SPEC",
        "belongs to llmgw",
    ),
    "an unquoted version": (
        model(profile="engine: llamacpp, engine_version: ▶0.10"),
        "models.m.profiles[0].engine_version",
        "put it in quotes",
    ),
    "a version range that is none": (
        model(profile="engine: llamacpp, engine_version: ▶newest"),
        "models.m.profiles[0].engine_version",
        "not a version range",
    ),
    "a version that is none of the engine's": (
        model(profile="engine: cpuonly, engine_version: ▶'>=1.2'"),
        "models.m.profiles[0].engine_version",
        "'1.2' is not a version of CPU only",
    ),
    "an engine without a plugin": (
        model(profile="engine: ▶tgi"),
        "models.m.profiles[0].engine",
        "installed: cpuonly, llamacpp, piped, vllm (pip install llmgw-tgi",
    ),
    "an engine misspelt": (
        model(profile="engine: ▶vlm"),
        "models.m.profiles[0].engine",
        "did you mean 'vllm'?",
    ),
    "no engine": (model(profile="▶cpus: 1"), "models.m.profiles[0]", "'engine' is missing"),
    "sizes that do not multiply": (
        model(profile="engine: vllm, gpu_class: h100-80g, gpus_per_node: ▶4, tensor_parallel: 2"),
        "models.m.profiles[0].gpus_per_node",
        "nodes 1 × gpus_per_node 4 = 4 GPUs, but tensor_parallel 2 × pipeline_parallel 1 × "
        "data_parallel 1 = 2 (set tensor_parallel: 4",
    ),
    "parallel sizes without GPUs": (
        model(profile="▶engine: llamacpp, tensor_parallel: 2"),
        "models.m.profiles[0]",
        "has no parallel sizes",
    ),
    "a GPU class without GPUs": (
        model(profile="engine: llamacpp, gpu_class: ▶h100-80g"),
        "models.m.profiles[0].gpu_class",
        "gpus_per_node is 0",
    ),
    "GPUs without a class": (
        model(profile="▶engine: llamacpp, gpus_per_node: 1"),
        "models.m.profiles[0]",
        "'gpu_class' is missing",
    ),
    "several nodes for an engine of one": (
        model(profile=f"engine: llamacpp, {GPU.replace('parallel: 2', 'parallel: 4')}, nodes: ▶2"),
        "models.m.profiles[0].nodes",
        "llama.cpp cannot run over several nodes",
    ),
    "more nodes than the engine can": (
        model(profile=f"engine: vllm, {GPU}, pipeline_parallel: 5, nodes: ▶5"),
        "models.m.profiles[0].nodes",
        "at most 4 nodes",
    ),
    "a tensor-parallel group over nodes": (
        model(profile="engine: piped, gpu_class: h100-80g, gpus_per_node: 2, nodes: 2, tensor_parallel: ▶4"),
        "models.m.profiles[0].tensor_parallel",
        "would span nodes of 2 GPUs",
    ),
    "no GPU for an engine that needs one": (
        model(profile="engine: vllm, gpus_per_node: ▶0"),
        "models.m.profiles[0].gpus_per_node",
        "vLLM does not run without GPUs",
    ),
    "a GPU for an engine that uses none": (
        model(profile=f"engine: cpuonly, {GPU.replace('node: ', 'node: ▶')}"),
        "models.m.profiles[0].gpus_per_node",
        "does not run on GPUs",
    ),
    "adapters for an engine without them": (
        model(profile="engine: llamacpp, ▶lora: {a: /a}"),
        "models.m.profiles[0].lora",
        "no LoRA",
    ),
    "a kind that the engine does not serve": (
        model("kind: embedding", profile="engine: ▶llamacpp"),
        "models.m.profiles[0].engine",
        "does not serve models of kind embedding",
    ),
    "more replicas at least than at most": (
        model("scaling: {min_replicas: ▶3, max_replicas: 2}"),
        "models.m.scaling.min_replicas",
        "min_replicas 3 is above max_replicas 2",
    ),
    "sleep that never comes": (
        model("scaling: {min_replicas: 1, idle_timeout: ▶5m}"),
        "models.m.scaling.idle_timeout",
        "while min_replicas is 1",
    ),
    "a first byte after the end": (
        model("timeouts: {first_byte: ▶2h, total: 1h}"),
        "models.m.timeouts.first_byte",
        "longer than total",
    ),
    "two profiles of one name": (
        "version: 1\nmodels:\n  m:\n    source: /m\n    profiles:\n"
        "      - {name: x, engine: llamacpp}\n      - {name: ▶x, engine: llamacpp}\n",
        "models.m.profiles[1].name",
        "'x' is given twice: first at profiles[0]",
    ),
    "one of several profiles without a name": (
        "version: 1\nmodels:\n  m:\n    source: /m\n    profiles:\n"
        "      - {name: x, engine: llamacpp}\n      - ▶{engine: llamacpp}\n",
        "models.m.profiles[1]",
        "'name' is missing",
    ),
    "an alias that is a model": (two("aliases: [▶b]"), "models.a.aliases[0]", "the name of another model"),
    "an alias that is the own name": (two("aliases: [▶a]"), "models.a.aliases[0]", "the model's own name"),
    "an alias of two models": (
        two("aliases: [x]", "aliases: [▶x]"),
        "models.b.aliases[0]",
        "an alias of 'a' as well",
    ),
    "an alias twice": (two("aliases: [x, ▶x]"), "models.a.aliases[1]", "given twice"),
    "a fallback to nothing": (
        two("fallbacks: [▶c]"),
        "models.a.fallbacks[0]",
        "not a model of this catalog (other models: b)",
    ),
    "a fallback to itself": (two("fallbacks: [▶a]"), "models.a.fallbacks[0]", "falls back to itself"),
    "a fallback twice": (two("fallbacks: [b, ▶b]"), "models.a.fallbacks[1]", "given twice"),
    "a fallback by alias": (
        two("fallbacks: [▶x]", "aliases: [x]"),
        "models.a.fallbacks[0]",
        "is an alias (write the model's name, b)",
    ),
    "fallbacks in a cycle": (
        two("fallbacks: [b]", "fallbacks: [▶a]"),
        "models.b.fallbacks[0]",
        "in a cycle: a → b → a",
    ),
    "a fallback of another kind": (
        "version: 1\nmodels:\n"
        "  a: {source: /m, profiles: [{engine: cpuonly}], fallbacks: [▶b]}\n"
        "  b: {source: /m, profiles: [{engine: cpuonly}], kind: rerank}\n",
        "models.a.fallbacks[0]",
        "is of kind rerank and cannot serve chat requests",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_refusal_names_line_column_path_and_reason(name: str, problems_of: Refused) -> None:
    marked, path, words = CASES[name]
    before = marked[: marked.index("▶")]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    problems = problems_of(marked.replace("▶", ""))
    assert len(problems) == 1, problems
    problem = problems[0]
    assert (problem.file, problem.line, problem.column) == ("c.yaml", line, column)
    assert problem.path == path
    assert words in str(problem)


def test_all_errors_come_at_once_in_file_order(problems_of: Refused) -> None:
    text = (
        "version: 1\n"
        "defaults: {load_timeout: 10}\n"
        "models:\n"
        "  a: {source: /m, on_lost: maybe, fallbacks: [c],\n"
        "      scaling: {mn: 1, min_replicas: 2, max_replicas: 1},\n"
        "      profiles: [{engine: nope, cpus: 0}]}\n"
        "  b: {source: /m, source: /n, profiles: [{engine: llamacpp, tensor_parallel: 2, nods: 1}]}\n"
    )
    problems = problems_of(text)
    assert [problem.path for problem in problems] == [
        "defaults.load_timeout",
        "models.a.on_lost",
        "models.a.fallbacks[0]",
        "models.a.scaling.mn",
        "models.a.scaling.min_replicas",
        "models.a.profiles[0].engine",
        "models.a.profiles[0].cpus",
        "",  # the key that is given twice is no value of the catalog
        "models.b.profiles[0]",
        "models.b.profiles[0].nods",
    ]
    assert [(p.line, p.column) for p in problems] == sorted((p.line, p.column) for p in problems)


def test_what_a_broken_key_decides_is_not_judged(problems_of: Refused) -> None:
    text = model(profile="engine: vllm, gpu_class: h100-80g, gpus_per_node: 2, tensor_parallel: two")
    assert [problem.path for problem in problems_of(text)] == ["models.m.profiles[0].tensor_parallel"]


def test_a_value_of_the_environment_is_never_shown(problems_of: Refused) -> None:
    text = model(profile='engine: llamacpp, env: {HF_TOKEN: [hf_secret], OTHER: "hf_secret\\0"}')
    problems = problems_of(text)
    assert len(problems) == 2
    assert "hf_secret" not in "".join(map(str, problems))
