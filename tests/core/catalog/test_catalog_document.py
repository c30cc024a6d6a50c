"""What no YAML file may do to us: limits, tags, keys given twice, and syntax errors with their place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml
from llmgw_core.catalog import document
from llmgw_core.catalog.document import MAX_BYTES, MAX_NODES, read_document
from llmgw_core.catalog.scalar import plain_scalar
from llmgw_core.spec import Problem

Refused = Callable[[str | bytes], list[Problem]]

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30)
)
CASES: dict[str, tuple[str | bytes, int, int, str]] = {
    "an empty file": ("", 1, 1, "the catalog is empty"),
    "only a comment": ("# nothing\n", 1, 1, "the catalog is empty"),
    "a list without end": ("version: 1\nmodels: [", 3, 1, "did not find expected node content"),
    "a tab": ("version: 1\nmodels:\n\tm: 1\n", 3, 1, "indent with spaces"),
    "half a file": ("version: 1\nmodels:\n  m: {source: '/m", 3, 18, "while scanning a quoted scalar"),
    "two documents": ("version: 1\n---\nversion: 1\n", 2, 1, "a second document begins here"),
    "an unknown anchor": ("a: 1\nb: *x\n", 2, 4, "&x is not defined above"),
    "an anchor in itself": ("a: &x\n  b: *x\n", 2, 6, "&x is used inside itself"),
    "a character that is no text": ("a: 1\nb: \x07\n", 2, 4, "U+0007"),
    "half a surrogate pair": ("a: \ud800\n", 1, 4, "U+D800"),
    "Latin-1": (b"a: 1\nb: caf\xe9\n", 2, 7, "not UTF-8: byte 0xe9"),
    "UTF-16": ("a: 1".encode("utf-16"), 1, 1, "not UTF-8"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_document_that_cannot_be_read_is_one_error_with_its_place(name: str, problems_of: Refused) -> None:
    text, line, column, words = CASES[name]
    problems = problems_of(text)
    assert [(p.line, p.column) for p in problems] == [(line, column)]
    assert words in str(problems[0])


@pytest.mark.parametrize("loader", (yaml.SafeLoader, yaml.CSafeLoader))
@pytest.mark.parametrize("name", ("two documents", "an unknown anchor", "an anchor in itself", "half a file"))
def test_both_parsers_of_pyyaml_see_the_same_place(
    name: str, loader: type, problems_of: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "_LOADER", loader)
    text, line, column, _ = CASES[name]
    (problem,) = problems_of(text)
    assert (problem.line, problem.column) == (line, column)


def test_a_key_given_twice_names_both_lines(problems_of: Refused) -> None:
    problems = problems_of("version: 1\nmodels: {}\n\nversion: 1\n")
    assert [(p.line, p.column) for p in problems] == [(4, 1)]
    assert "'version' is given twice: first on line 1" in problems[0].message


@pytest.mark.parametrize("tag", ("!!python/object/apply:os.system", "!!str", "!mine"))
def test_tags_are_refused_and_build_nothing(tag: str, problems_of: Refused) -> None:
    problems = problems_of(f"version: 1\nmodels: {{}}\ndefaults: {tag} {{}}\n")
    assert [(p.line, p.column) for p in problems] == [(3, 11)]
    assert "is not allowed" in problems[0].message


def test_merge_keys_are_refused_with_the_way_out(problems_of: Refused) -> None:
    problems = problems_of("version: 1\ndefaults: &d {cpus: 2}\nmodels:\n  <<: *d\n")
    assert (problems[0].line, problems[0].column) == (4, 3)
    assert "under defaults" in problems[0].fix


def test_a_key_that_is_no_text_is_refused(problems_of: Refused) -> None:
    problems = problems_of("version: 1\nmodels: {}\n? [a, b]\n: 1\n")
    assert (problems[0].line, problems[0].column) == (3, 3)
    assert "has to be text" in problems[0].message


def test_an_alias_bomb_is_refused_where_it_goes_over_the_limit(problems_of: Refused) -> None:
    (problem,) = problems_of(BOMB)
    # 10^4 values are in bounds, 10^5 with those before them as well, 10^6 are not: nothing was expanded.
    assert problem.line == 6
    assert f"more than {MAX_NODES} values" in problem.message


def test_many_values_are_refused_without_aliases_too(problems_of: Refused) -> None:
    (problem,) = problems_of("[" + "1," * (MAX_NODES + 1) + "]")
    assert "more than" in problem.message


@pytest.mark.parametrize("text", ("[" * 100_000, "- " * 100_000, "{a: " * 5_000, "? " * 50_000))
def test_deep_nesting_is_refused(text: str, problems_of: Refused) -> None:
    (problem,) = problems_of(text)
    assert problem.line == 1
    assert problem.column > 1


def test_a_file_over_the_limit_is_refused_unread(problems_of: Refused) -> None:
    (problem,) = problems_of(b"#" * (MAX_BYTES + 1))
    assert f"the limit is {MAX_BYTES}" in problem.message
    (problem,) = problems_of("é" * (MAX_BYTES // 2 + 1))
    assert f"has {MAX_BYTES + 2} bytes" in problem.message


def test_a_byte_order_mark_is_read_over() -> None:
    root, defects = read_document(b"\xef\xbb\xbfversion: 1\n")
    assert root is not None
    assert root.plain() == {"version": 1}
    assert defects == ()


def test_anchors_within_bounds_are_expanded() -> None:
    root, defects = read_document("a: &x {cpus: 2}\nb: [*x, *x]\n")
    assert root is not None
    assert root.plain() == {"a": {"cpus": 2}, "b": [{"cpus": 2}, {"cpus": 2}]}
    assert defects == ()


@pytest.mark.parametrize(
    ("text", "value"),
    (
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("0", 0),
        ("-12", -12),
        ("1.5", 1.5),
        ("1e3", "1e3"),
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("010", "010"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("1e999", "1e999"),
        (".inf", ".inf"),
        ("2026-11-03", "2026-11-03"),
        ("1" * 5000, "1" * 5000),
    ),
)
def test_only_plain_numbers_and_true_and_false_are_not_text(text: str, value: object) -> None:
    found = plain_scalar(text)
    assert found == value
    assert type(found) is type(value)
