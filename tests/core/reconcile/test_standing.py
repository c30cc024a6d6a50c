"""How a model stands, in words: more for operators than for clients."""

from __future__ import annotations

from llmgw_core.reconcile.backoff import Backoff
from llmgw_core.reconcile.standing import Standing, standings
from llmgw_core.spec import Failure
from llmgw_core.testing.samples import catalog, model

SECRET = "task 7: the prompt of somebody else"


def _failed(kind: str, *, revision: str | None = None) -> Standing:
    failure = Failure.model_validate({"failure": kind, "detail": SECRET})
    entry = Backoff(1, 1100.0, failure, "r-aaaaaaaaaa", revision)
    (standing,) = standings(catalog(model()), (), {}, {"m": entry}, now=1000.0)
    return standing


def test_clients_learn_the_class_of_a_failure_and_never_the_engines_words() -> None:
    standing = _failed("out_of_memory")
    assert SECRET in standing.reason
    assert standing.for_clients == "failed (out of memory)"


def test_a_configuration_failure_says_one_thing_about_what_comes_next() -> None:
    assert _failed("configuration", revision="1-a").next == (
        "not retried until the catalog changes; looked at again in 1m40s"
    )


def test_any_other_failure_says_when_it_is_retried() -> None:
    assert _failed("crash").next == "retry in 1m40s, attempt 2"
