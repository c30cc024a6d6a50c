"""What counts as ready: all three answers there and good, each reason a sentence that a person can read."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmgw_core.spec import ProbeResponse, Readiness, Shard
from llmgw_sglang import plugin

MakeShard = Callable[..., Shard]

# As SGLang 0.5.23 answers.
MODELS = (
    '{"object":"list","data":[{"id":"llama","object":"model","created":1795982283,"owned_by":"sglang",'
    '"root":"llama","parent":null,"max_model_len":512}]}'
)
TOKEN = (
    '{"id":"48a526ced8e94f5b93d1636c80691aef","object":"text_completion","created":1795982283,"model":"llama",'
    '"choices":[{"index":0,"text":"x","logprobs":null,"finish_reason":"length","matched_stop":null}],'
    '"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1,"prompt_tokens_details":null},'
    '"metadata":{"weight_version":"default"}}'
)
REFUSED = '{"object":"error","message":"1 validation error:\\n  File \\"/opt/sglang/x.py\\"","code":400}'


def ok(body: str) -> ProbeResponse:
    return ProbeResponse(status=200, body=body)


GOOD = {"startup": ok(""), "readiness": ok(MODELS), "inference": ok(TOKEN)}


def judged(shard: Shard, **changed: ProbeResponse) -> Readiness:
    return plugin.llmgw_engine_ready(shard, {**GOOD, **changed})


def test_all_three_good_answers_are_ready(make_shard: MakeShard) -> None:
    assert judged(make_shard()) == Readiness(ready=True)


@pytest.mark.parametrize("missing", ("startup", "readiness", "inference"))
def test_without_one_of_them_it_is_not_ready(make_shard: MakeShard, missing: str) -> None:
    answers = {name: answer for name, answer in GOOD.items() if name != missing}
    verdict = plugin.llmgw_engine_ready(make_shard(), answers)
    assert verdict == Readiness(ready=False, reason=f"the {missing} probe has not been asked yet")


@pytest.mark.parametrize(
    ("answer", "reason"),
    (
        (ProbeResponse(error="connection refused"), "opens its port when the model is loaded"),
        (ProbeResponse(status=503), "SGLang is warming up, is about to end, or gets no token"),
        (ProbeResponse(status=401, body='{"error":"Unauthorized"}'), "another program may be listening"),
        (ProbeResponse(status=404, body='{"detail":"Not Found"}'), "was answered with status 404"),
    ),
)
def test_a_bad_health_answer_has_its_reason(
    make_shard: MakeShard, answer: ProbeResponse, reason: str
) -> None:
    verdict = judged(make_shard(), startup=answer)
    assert not verdict.ready
    assert reason in verdict.reason


def test_the_engines_sentence_is_shown_without_the_lines_of_its_sources(make_shard: MakeShard) -> None:
    verdict = judged(make_shard(), inference=ProbeResponse(status=400, body=REFUSED))
    assert verdict.reason == "the inference probe was answered with status 400: 1 validation error:"


@pytest.mark.parametrize(
    ("body", "reason"),
    (
        (MODELS.replace('"id":"llama"', '"id":"other"'), "the engine lists other instead of llama"),
        ('{"data":[]}', "the engine lists no model instead of llama"),
        ('{"data":null}', "no model"),
        ('{"data":["llama"]}', "no model"),
        ('"llama"', "no model"),
        ("[" * 100_000, "cut off or not JSON"),
    ),
)
def test_another_model_behind_the_port_is_not_ready(make_shard: MakeShard, body: str, reason: str) -> None:
    verdict = judged(make_shard(), readiness=ok(body))
    assert not verdict.ready
    assert reason in verdict.reason


def test_adapters_beside_the_model_do_no_harm(make_shard: MakeShard) -> None:
    models = json.loads(MODELS)
    models["data"].append({"id": "poet", "object": "model", "parent": "llama"})
    assert judged(make_shard(), readiness=ok(json.dumps(models))).ready


@pytest.mark.parametrize(
    "body",
    (
        '{"choices":[]}',
        '{"choices":[{},{}]}',
        '{"choices":[null]}',
        TOKEN.replace('"completion_tokens":1', '"completion_tokens":0'),
        TOKEN.replace('"text":"x"', '"text":null'),
        '{"choices":[{"text":"x"}],"usage":null}',
        "null",
    ),
)
def test_an_answer_without_a_generated_token_is_not_ready(make_shard: MakeShard, body: str) -> None:
    verdict = judged(make_shard(), inference=ok(body))
    assert not verdict.ready
    assert verdict.reason.startswith("the engine answered without")


@settings(deadline=None)  # a busy machine is no failure
@given(probe=st.sampled_from(("readiness", "inference")), data=st.data())
def test_a_body_cut_off_anywhere_is_not_ready(make_shard: MakeShard, probe: str, data: st.DataObject) -> None:
    whole = GOOD[probe].body
    cut = data.draw(st.integers(min_value=0, max_value=len(whole) - 1))
    verdict = judged(make_shard(), **{probe: ok(whole[:cut])})
    assert verdict == Readiness(ready=False, reason=f"the answer to the {probe} probe is cut off or not JSON")


@settings(deadline=None)  # a busy machine is no failure
@given(
    statuses=st.tuples(*[st.sampled_from((None, 100, 200, 204, 301, 401, 404, 500, 503))] * 3),
    body=st.one_of(st.text(), st.sampled_from((MODELS, TOKEN, REFUSED))),
)
def test_no_answer_makes_the_judge_fail(
    make_shard: MakeShard, statuses: tuple[int | None, int | None, int | None], body: str
) -> None:
    names = ("startup", "readiness", "inference")
    answers = {
        name: ProbeResponse(status=status, body=body) for name, status in zip(names, statuses, strict=True)
    }
    verdict = plugin.llmgw_engine_ready(make_shard(), answers)
    assert not verdict.ready  # one body cannot be a list of models and a token
    assert verdict.reason


def test_probes_ask_health_then_names_then_one_token(make_shard: MakeShard) -> None:
    probes = plugin.llmgw_engine_probes(make_shard())
    assert probes is not None
    asked = [(probe.method, probe.path) for probe in (probes.startup, probes.readiness, probes.inference)]
    assert asked == [("GET", "/health"), ("GET", "/v1/models"), ("POST", "/v1/completions")]
    question = json.loads(probes.inference.body or "")
    assert (question["model"], question["max_tokens"]) == ("llama", 1)


def test_health_has_more_time_than_sglang_gives_itself(make_shard: MakeShard) -> None:
    probes = plugin.llmgw_engine_probes(make_shard())
    assert probes is not None
    # It generates a token, never within a second, and answers 503 after 20.
    assert probes.startup.timeout > 20
    assert (probes.liveness.path, probes.liveness.timeout) == ("/health", probes.startup.timeout)


def test_a_worker_is_not_asked_since_its_200_says_only_that_it_started(make_shard: MakeShard) -> None:
    assert plugin.llmgw_engine_probes(make_shard(rank=1, nodes=2, tensor_parallel=2)) is None
