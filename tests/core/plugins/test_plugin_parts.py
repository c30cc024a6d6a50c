"""The parts of small engine plugins: refusing, operators' arguments, OpenAI probes and their answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llmgw_core.spec import (
    Capability,
    EngineInfo,
    Flag,
    FlagTable,
    ProbeResponse,
    Profile,
    Shard,
    Support,
    Unsupported,
    openai_probes,
    openai_ready,
    operator_arguments,
    refuse_unsupported,
)
from llmgw_core.testing import samples


def an_engine(*supported: Capability) -> EngineInfo:
    return EngineInfo.model_validate(
        {
            "name": "toy",
            "title": "Toy",
            "binary": {"names": ("toy",)},
            "capabilities": dict.fromkeys(supported, Support.SUPPORTED),
            "paths": ("/v1/completions",),
        }
    )


def a_shard(kind: str = "chat", name: str = "m", source: str = "/m", **profile: Any) -> Shard:
    own = samples.profile(**profile)
    return samples.shard(profile=own, served_name=name, source=source, kind=kind)


PLAIN = an_engine(Capability.CPU)


@pytest.mark.parametrize(
    ("shard", "field"),
    (
        (a_shard(nodes=2), "nodes"),
        (a_shard(gpus_per_node=1), "gpus_per_node"),
        (a_shard("embedding"), "kind"),
        (a_shard("transcription"), "kind"),
        (a_shard(lora={"a": "/a"}), "lora"),
        (a_shard(tensor_parallel=2), "tensor_parallel"),
        (a_shard(quantization="fp8"), "quantization"),
        (a_shard(launch_mode=""), "launch_mode"),
        (a_shard(max_model_len=1), "max_model_len"),
        (a_shard(name="a\0b"), "name"),
        (a_shard(source=""), "source"),
    ),
)
def test_what_is_not_declared_is_refused_by_its_field(shard: Shard, field: str) -> None:
    with pytest.raises(Unsupported) as caught:
        refuse_unsupported(PLAIN, shard)
    assert caught.value.field == field


def test_a_cpu_is_refused_by_an_engine_that_needs_a_gpu() -> None:
    with pytest.raises(Unsupported, match="Toy needs a GPU"):
        refuse_unsupported(an_engine(Capability.GPU), a_shard())


def test_what_is_declared_or_taken_is_let_through() -> None:
    able = an_engine(Capability.GPU, Capability.MULTI_NODE, Capability.EMBEDDING, Capability.LORA)
    shard = a_shard("embedding", nodes=2, gpus_per_node=2, tensor_parallel=4, lora={"a": "/a"})
    refuse_unsupported(able, shard, takes=("tensor_parallel",))
    refuse_unsupported(PLAIN, a_shard())


def test_a_variable_of_the_plugins_own_is_refused_and_others_are_not() -> None:
    shard = a_shard(env={"TOY_KEY": "mine", "OTHER": "1"})
    refuse_unsupported(PLAIN, shard, variables=("ANOTHER",))
    with pytest.raises(Unsupported) as caught:
        refuse_unsupported(PLAIN, shard, variables=("TOY_KEY",))
    assert caught.value.field == "env.TOY_KEY"


TABLE = FlagTable(
    engine="toy",
    version="1",
    source="captured help",
    flags=(
        Flag(names=("-p", "--port")),
        Flag(names=("--size",)),
        Flag(names=("--fast",)),
        Flag(names=("--add",), repeatable=True),
        Flag(names=("--trust-remote-code",)),
    ),
)


def arguments(engine_args: dict[str, Any], **profile: Any) -> tuple[str, ...]:
    made = Profile(name="p", engine="toy", engine_args=engine_args, **profile)
    remote = ("--trust-remote-code",)
    return operator_arguments(made, PLAIN, (TABLE,), "1", owned=("--port",), remote_code=remote)


def test_arguments_become_flags_with_their_values_attached_in_the_order_of_their_names() -> None:
    assert arguments({"size": -1, "fast": True, "add": ("a b", "-c")}) == (
        "--add=a b",
        "--add=-c",
        "--fast",
        "--size=-1",
    )
    assert arguments({"fast": False, "--size": "1"}) == ("--size=1",)


@pytest.mark.parametrize("written", ("port", "--port", "p", "por", "port=1", "no-port"))
def test_the_plugins_own_flag_is_refused_in_every_spelling(written: str) -> None:
    with pytest.raises(Unsupported) as caught:
        arguments({written: 1})
    assert caught.value.field == f"engine_args.{written}"


@pytest.mark.parametrize(
    ("engine_args", "reason"),
    (
        ({"sise": 1}, "did you mean --size"),
        ({"size": "a\0b"}, "a NUL character"),
        ({"a b": 1}, "not the long name of a flag"),
        ({"trust_remote_code": True}, "allow_remote_code"),
    ),
)
def test_what_the_engine_cannot_be_given_is_refused(engine_args: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        arguments(engine_args)


def test_code_of_others_is_the_operators_to_allow() -> None:
    assert arguments({"trust-remote-code": True}, allow_remote_code=True) == ("--trust-remote-code",)


LISTED = {"data": [{"id": "m"}]}


def answers(readiness: object = LISTED, inference: object = None) -> dict[str, ProbeResponse]:
    given = {"choices": [{"text": "!"}]} if inference is None else inference
    bodies = {"startup": "", "readiness": json.dumps(readiness), "inference": json.dumps(given)}
    return {name: ProbeResponse(status=200, body=body) for name, body in bodies.items()}


def test_each_kind_is_asked_what_it_can_answer() -> None:
    chat, embedding = openai_probes(a_shard(), health="/up"), openai_probes(a_shard("embedding"))
    assert (chat.startup.path, chat.liveness.path, embedding.startup.path) == ("/up", "/up", "/health")
    assert (chat.inference.path, embedding.inference.path) == ("/v1/completions", "/v1/embeddings")
    assert json.loads(chat.inference.body or "")["model"] == "m"


@pytest.mark.parametrize(
    "inference",
    (
        {"choices": [{"text": "!"}]},
        {"choices": [{"message": {"content": "!"}}], "usage": {"completion_tokens": 1}},
    ),
)
def test_a_token_and_the_right_name_are_ready(inference: object) -> None:
    assert openai_ready(a_shard(), answers(inference=inference)).ready


@pytest.mark.parametrize(
    ("responses", "reason"),
    (
        ({}, "the startup probe has not been asked yet"),
        ({"startup": ProbeResponse(error="refused")}, "no answer to the startup probe: refused"),
        ({"startup": ProbeResponse(status=401)}, "refuses its own key"),
        ({"startup": ProbeResponse(status=503)}, "answered with status 503"),
        (answers(readiness={"data": [{"id": "other"}]}), "the engine lists other instead of m"),
        (answers(readiness={"data": []}), "the engine lists no model instead of m"),
        (answers(inference={"choices": []}), "without a choice"),
        (
            answers(inference={"choices": [{"text": ""}], "usage": {"completion_tokens": 0}}),
            "without a generated",
        ),
    ),
)
def test_anything_less_is_not_ready_and_says_why(responses: dict[str, ProbeResponse], reason: str) -> None:
    readiness = openai_ready(a_shard(), responses)
    assert not readiness.ready
    assert reason in readiness.reason


def test_an_embedding_is_what_an_embedding_model_has_to_give() -> None:
    shard = a_shard("embedding")
    assert openai_ready(shard, answers(inference={"data": [{"embedding": [0.5]}]})).ready
    assert "without an embedding" in openai_ready(shard, answers()).reason
