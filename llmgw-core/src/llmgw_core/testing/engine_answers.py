"""Rules about how an engine plugin asks whether its engine is up, and judges the answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from llmgw_core.engine_check.variety import Request
from llmgw_core.spec import Probe, ProbeResponse, Probes
from llmgw_core.testing.answers import bad_bodies, bad_statuses
from llmgw_core.testing.engine_suite import EngineSuite, changed
from llmgw_core.testing.rules import rule

__all__ = ["AnswerRules"]

_QUESTIONS = ("startup", "readiness", "inference")
_LONGEST = 600.0
"""Seconds that one probe may take at the most."""


class AnswerRules(EngineSuite):
    """A shard is ready when it is up, serves its model and was seen to infer; in no other case."""

    @rule
    def test_its_probes_are_well_formed(self) -> None:
        """The agent sends them as they are, to the shard's own port, under the name of the model."""
        for request in self._kinds():
            odd = changed(request, served_name='a "name"\n')
            for shard, probes in ((request.shard, self._asked(request)), (odd.shard, self._asked(odd))):
                for name in (*_QUESTIONS, "liveness"):
                    for fault in _faults(getattr(probes, name)):
                        raise AssertionError(f"{name}: {fault}")
                body = json.loads(probes.inference.body or "{}")
                named = (
                    not isinstance(body, dict) or body.get("model", shard.served_name) == shard.served_name
                )
                assert named, "the inference probe asks for another model"
            assert self._asked(request).liveness != self._asked(request).inference, (
                "a busy engine would fail a liveness probe that has to wait for a token"
            )

    @rule
    def test_good_answers_are_ready(self) -> None:
        """What a good engine answers has to be enough, or no replica ever serves."""
        for request in self._kinds():
            readiness = self._ready(request.shard, self._good(request))
            assert readiness.ready, f"it is not ready: {readiness.reason}"

    @rule
    def test_a_bad_answer_is_not_ready(self) -> None:
        """An engine that was routed to too early fails requests; a reason tells what is missing."""
        for request in self._kinds():
            good = self._good(request)
            for question in _QUESTIONS:
                for what, answer in _bad(question, good[question]):
                    responses = {**good, question: answer}
                    given = {name: one for name, one in responses.items() if one is not None}
                    readiness = self._ready(request.shard, given)
                    where = f"{what} to {question}"
                    assert not readiness.ready, f"{where} is taken for ready"
                    assert readiness.reason.strip(), f"{where} is not ready for no reason"
            assert not self._ready(request.shard, {}).ready, "it is ready without having been asked"

    @rule
    def test_another_model_is_not_ready(self) -> None:
        """Another server may have taken the port, or the engine may serve under another name."""
        for request in self._kinds():
            other = changed(request, served_name="another-model")
            readiness = self._ready(request.shard, self._good(other))
            assert not readiness.ready, "an engine that serves another model is taken for ready"
            assert readiness.reason.strip(), "it is not ready for no reason"

    def _kinds(self) -> Iterator[Request]:
        """One rank that serves HTTP, for each kind of model that the plugin takes."""
        plain = self._one().request
        for kind in ("chat", "embedding", "rerank", "transcription"):
            request = changed(plain, kind=kind)
            if self._refusal(request) is None:
                yield request

    def _asked(self, request: Request) -> Probes:
        probes = self._probes(request)
        assert probes is not None, "rank 0 has no probes, so nothing could be routed to it"
        return probes

    def _good(self, request: Request) -> Mapping[str, ProbeResponse]:
        return self.answers(request.shard, self._asked(request))


def _bad(question: str, good: ProbeResponse) -> Iterator[tuple[str, ProbeResponse | None]]:
    yield from bad_statuses()
    if question != "startup":  # its status says everything, its body is empty for many engines
        yield from bad_bodies(good.body)


def _faults(probe: Probe) -> Iterator[str]:
    if not probe.path.startswith("/") or probe.path.startswith("//") or " " in probe.path:
        yield f"{probe.path!r} is not a path"
    if not 0 < probe.timeout <= _LONGEST:
        yield f"its timeout is {probe.timeout:g} s"
    if (probe.method == "POST") != (probe.body is not None):
        yield f"a {probe.method} " + ("has no body" if probe.body is None else "has a body")
    if probe.body is not None and _not_json(probe.body):
        yield "its body is not JSON, at least for a name with quotes"


def _not_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return True
    return False
