"""Random catalogs: good ones load, and whatever else comes is refused with a line and never crashes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from llmgw_core.catalog.load import load_catalog
from llmgw_core.catalog.schema import CatalogFile, DefaultsFile, ModelFile, ProfileFile
from llmgw_core.catalog.single import catalog_for_model, model_name
from llmgw_core.spec import BinarySpec, Capability, CatalogError, EngineArg, EngineInfo, Problem, Support

MANY = settings(max_examples=400, deadline=None)
ALL = dict.fromkeys(Capability, Support.SUPPORTED)
ENGINES = {
    name: EngineInfo(
        name=name, title=name, binary=BinarySpec(names=(name,)), paths=(), capabilities=ALL, max_nodes=8
    )
    for name in ("vllm", "llamacpp")
}

NAMES = st.text("aZ09._-", max_size=9).map(lambda tail: f"m{tail}")
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
DURATIONS = st.integers(1, 999).flatmap(
    lambda number: st.sampled_from([f"{number}{unit}" for unit in ("ms", "s", "m", "h")])
)
ARGS = st.one_of(TEXTS, st.integers(-(10**9), 10**9), st.booleans(), st.none(), st.lists(TEXTS, max_size=2))


@st.composite
def profile_bodies(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A profile without a fault."""
    body: dict[str, Any] = {"name": name, "engine": draw(st.sampled_from(sorted(ENGINES)))}
    tensor, pipeline, data = (draw(st.sampled_from((1, 2, 4))) for _ in range(3))
    if draw(st.booleans()):
        nodes = draw(st.sampled_from((1, pipeline)))
        body |= {
            "gpu_class": draw(st.sampled_from(("h100-80g", "l40s-45g"))),
            "nodes": nodes,
            "gpus_per_node": tensor * pipeline * data // nodes,
            "tensor_parallel": tensor,
            "pipeline_parallel": pipeline,
            "data_parallel": data,
        }
    optional = {
        "engine_version": st.sampled_from((">=0.10", ">=1,<2", "~=1.2.3")),
        "cpus": st.integers(1, 256),
        "memory": st.sampled_from(("512MiB", "8GiB", "1.5TB")),
        "max_model_len": st.integers(1, 10**6),
        "load_timeout": DURATIONS,
        "env": st.dictionaries(st.sampled_from(("A", "_B", "HF_HOME")), TEXTS, max_size=2),
        "engine_args": st.dictionaries(NAMES, ARGS, max_size=3),
        "node_selector": st.dictionaries(TEXTS, TEXTS, max_size=2),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(optional)), unique=True))
    return body | {key: draw(optional[key]) for key in chosen}


@st.composite
def catalogs(draw: st.DrawFn) -> dict[str, Any]:
    """A catalog without a fault; fallbacks lead to later models only, so that there is no cycle."""
    names = draw(st.lists(NAMES, unique=True, max_size=3))
    models: dict[str, Any] = {}
    for index, name in enumerate(names):
        low = draw(st.integers(0, 3))
        count = draw(st.integers(1, 2))
        models[name] = {
            "source": draw(TEXTS),
            "profiles": [draw(profile_bodies(f"p{number}")) for number in range(count)],
            "scaling": {"min_replicas": low, "max_replicas": draw(st.integers(max(1, low), 5))},
            "aliases": [f"{name}:alias"] if draw(st.booleans()) else [],
            "fallbacks": draw(st.lists(st.sampled_from(names[index + 1 :]), unique=True))
            if names[index + 1 :]
            else [],
        }
    return {"version": 1, "models": models}


def written_back(args: Mapping[str, EngineArg]) -> dict[str, Any]:
    """Engine arguments with lists, as YAML has them."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in args.items()}


@MANY
@given(catalogs(), st.booleans())
def test_a_catalog_without_a_fault_loads_whole(data: dict[str, Any], flow: bool) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow, sort_keys=False)
    catalog = load_catalog(text, file="c.yaml", engines=ENGINES).catalog
    assert list(catalog.models) == list(data["models"])
    for name, written in data["models"].items():
        model = catalog.models[name]
        assert model.source == written["source"]
        assert list(model.fallbacks) == written["fallbacks"]
        assert all(catalog.resolve(alias) is model for alias in written["aliases"])
        for profile, body in zip(model.profiles, written["profiles"], strict=True):
            assert (profile.name, profile.engine) == (body["name"], body["engine"])
            assert profile.gpus_per_node == body.get("gpus_per_node", 0)
            assert dict(profile.env) == body.get("env", {})
            assert written_back(profile.engine_args) == body.get("engine_args", {})


def loads_or_refuses(text: str | bytes) -> None:
    """Loads the text, or refuses it with problems that all have a place and a reason."""
    problems = problems_of(text)
    assert not problems or any(problem.severity == "error" for problem in problems)
    for problem in problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message
        assert str(problem).startswith("c.yaml:")


def problems_of(text: str | bytes) -> tuple[Problem, ...]:
    """What a refused catalog is refused for; nothing for one that loads."""
    try:
        load_catalog(text, file="c.yaml", engines=ENGINES)
    except CatalogError as error:
        return error.problems
    return ()


@MANY
@given(st.one_of(st.text(), st.text("{}[]:,-&*!|>'\"%@`#? \n\tab1"), st.binary()))
@example("%YAML 1.2\n---\na: 1\n")
@example("--- |\n x\n...\n--- y\n")
@example("&a &b x")
@example("? ? ? x")
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    loads_or_refuses(text)


GOOD = yaml.safe_dump(
    {
        "version": 1,
        "defaults": {"load_timeout": "10m"},
        "models": {
            "a": {"source": "/a", "profiles": [{"engine": "vllm", "cpus": 2}], "fallbacks": ["b"]},
            "b": {"source": "/b", "aliases": ["c"], "profiles": [{"engine": "llamacpp"}]},
        },
    }
)


@MANY
@given(st.integers(0, len(GOOD)), st.integers(0, 4), st.text(max_size=3))
def test_a_damaged_catalog_is_read_or_refused(at: int, cut: int, put: str) -> None:
    loads_or_refuses(GOOD[:at] + put + GOOD[at + cut :])


KEYS = st.sampled_from(
    sorted({key for kind in (CatalogFile, DefaultsFile, ModelFile, ProfileFile) for key in kind.model_fields})
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(("10s", "vllm", "a")),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=5,
)


@MANY
@given(
    st.dictionaries(KEYS, VALUES, max_size=5),
    st.dictionaries(KEYS, VALUES, max_size=5),
    st.dictionaries(KEYS, VALUES, max_size=5),
)
def test_right_keys_with_any_values_are_read_or_refused(
    defaults: dict[str, Any], model: dict[str, Any], profile: dict[str, Any]
) -> None:
    # The other kind of fuzzing: it gets past the parser and meets every check with every type.
    body = {"source": "/m", **model, "profiles": [{"engine": "vllm", **profile}]}
    data = {"version": 1, "defaults": defaults, "models": {"a": body, "b": model}}
    loads_or_refuses(yaml.safe_dump(data))


@MANY
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), st.integers(0, 999))
@example("a\nb", 1)
@example("\x85\u2028\ufeff\U0001f600", 1)
@example('"quoted": {x}', 1)
@example("C:\\model.gguf", 1)
def test_a_model_file_of_any_name_gives_a_catalog_that_loads(path: str, cpus: int) -> None:
    loaded = load_catalog(catalog_for_model(path, cpus=cpus), file="made", engines=ENGINES)
    assert loaded.warnings == ()
    (model,) = loaded.catalog.models.values()
    assert (model.name, model.source) == (model_name(path), path)
    assert model.profiles[0].cpus == max(1, cpus - 1)


@MANY
@given(st.text())
def test_only_a_path_outside_utf8_cannot_be_written(path: str) -> None:
    with contextlib.suppress(UnicodeEncodeError):
        path.encode()
        catalog_for_model(path, cpus=1)
