"""What counts as ready: all three answers there and good, each reason a sentence that a person can read."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmgw_core.spec import Launch, ProbeResponse, Readiness, Shard
from llmgw_llamacpp import plugin

MakeShard = Callable[..., Shard]

LOADING = '{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
HEALTH = '{"status":"ok"}'
MODELS = (
    '{"models":[{"name":"smol"}],"object":"list","data":[{"id":"smol","aliases":["smol"],"object":"model"}]}'
)
TOKEN = (
    '{"choices":[{"text":"-","index":0,"logprobs":null,"finish_reason":"length"}],"model":"smol",'
    '"usage":{"completion_tokens":1,"prompt_tokens":1,"total_tokens":2},"object":"text_completion"}'
)
EMBEDDING = '{"model":"smol","object":"list","data":[{"embedding":"AAAA","index":0,"object":"embedding"}]}'


def ok(body: str) -> ProbeResponse:
    return ProbeResponse(status=200, body=body)


GOOD = {"startup": ok(HEALTH), "readiness": ok(MODELS), "inference": ok(TOKEN)}


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
        (ProbeResponse(status=503, body=LOADING), "loading the model"),
        (ProbeResponse(status=503, body=""), "the startup probe was answered with status 503"),
        (ProbeResponse(status=500, body='{"error":{"message":"boom"}}'), "answered with status 500: boom"),
        (ProbeResponse(status=401, body="{}"), "another program may be listening"),
        (ProbeResponse(error="connection refused"), "no answer to the startup probe: connection refused"),
        (ok('{"status":"error"}'), "does not say ok"),
        (ok("[]"), "does not say ok"),
        (ok("[" * 100_000), "cut off or not JSON"),
    ),
)
def test_a_bad_health_answer_has_its_reason(
    make_shard: MakeShard, answer: ProbeResponse, reason: str
) -> None:
    verdict = judged(make_shard(), startup=answer)
    assert not verdict.ready
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("body", "reason"),
    (
        (MODELS.replace('"id":"smol"', '"id":"other"'), "the engine lists other instead of smol"),
        ('{"data":[]}', "the engine lists no model instead of smol"),
        ('{"data":null}', "no model"),
        ('{"data":["smol"]}', "no model"),
        ('"smol"', "no model"),
    ),
)
def test_another_model_behind_the_port_is_not_ready(make_shard: MakeShard, body: str, reason: str) -> None:
    verdict = judged(make_shard(), readiness=ok(body))
    assert not verdict.ready
    assert reason in verdict.reason


@pytest.mark.parametrize(
    "body",
    (
        '{"choices":[]}',
        '{"choices":[{},{}]}',
        '{"choices":[null]}',
        TOKEN.replace('"completion_tokens":1', '"completion_tokens":0'),
        TOKEN.replace('"text":"-"', '"text":null'),
        '{"choices":[{"text":"-"}],"usage":null}',
        "null",
    ),
)
def test_an_answer_without_a_generated_token_is_not_ready(make_shard: MakeShard, body: str) -> None:
    verdict = judged(make_shard(), inference=ok(body))
    assert not verdict.ready
    assert verdict.reason.startswith("the engine answered without")


@settings(deadline=None)  # a busy machine is no failure
@given(probe=st.sampled_from(("startup", "readiness", "inference")), data=st.data())
def test_a_body_cut_off_anywhere_is_not_ready(make_shard: MakeShard, probe: str, data: st.DataObject) -> None:
    whole = GOOD[probe].body
    cut = data.draw(st.integers(min_value=0, max_value=len(whole) - 1))
    verdict = judged(make_shard(), **{probe: ok(whole[:cut])})
    assert verdict == Readiness(ready=False, reason=f"the answer to the {probe} probe is cut off or not JSON")


@settings(deadline=None)  # a busy machine is no failure
@given(
    statuses=st.tuples(*[st.sampled_from((None, 100, 200, 204, 301, 401, 404, 500, 503))] * 3),
    body=st.one_of(st.text(), st.sampled_from((HEALTH, MODELS, TOKEN, LOADING))),
)
def test_no_answer_makes_the_judge_fail(
    make_shard: MakeShard, statuses: tuple[int | None, int | None, int | None], body: str
) -> None:
    names = ("startup", "readiness", "inference")
    answers = {
        name: ProbeResponse(status=status, body=body) for name, status in zip(names, statuses, strict=True)
    }
    verdict = plugin.llmgw_engine_ready(make_shard(), answers)
    assert not verdict.ready  # one body cannot be all three good answers
    assert verdict.reason


def test_an_embedding_model_is_asked_for_an_embedding(make_shard: MakeShard) -> None:
    shard = make_shard({"kind": "embedding"})
    probes = plugin.llmgw_engine_probes(shard)
    assert probes is not None
    assert probes.inference.path == "/v1/embeddings"
    assert judged(shard, inference=ok(EMBEDDING)).ready
    assert not judged(shard, inference=ok(TOKEN)).ready
    assert not judged(shard, inference=ok('{"data":[]}')).ready


def test_probes_ask_health_then_names_then_one_token(make_shard: MakeShard, launch: Launch) -> None:
    probes = plugin.llmgw_engine_probes(make_shard())
    assert probes is not None
    asked = [(probe.method, probe.path) for probe in (probes.startup, probes.readiness, probes.inference)]
    assert asked == [("GET", "/health"), ("GET", "/v1/models"), ("POST", "/v1/completions")]
    assert json.loads(probes.inference.body or "")["max_tokens"] == 1
    assert (probes.liveness.method, probes.liveness.path) == ("GET", "/health")
