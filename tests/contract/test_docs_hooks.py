"""The documentation of the hooks says what the hooks are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from llmgw_core.spec import hookspecs

DOCS = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
HOOKS = tuple(name for name in hookspecs.__all__ if name.startswith("llmgw_"))
SECTION = re.compile(r"^### (llmgw_\w+)\n\n```python\n(def .*)\n```\n\n(\S.*)$", re.MULTILINE)
DOCUMENTED = {name: (signature, prose) for name, signature, prose in SECTION.findall(DOCS)}


def signature_text(hook: str) -> str:
    return f"def {hook}{inspect.signature(getattr(hookspecs, hook))}".replace("'", "")


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_documented_with_its_exact_signature_and_a_meaning(hook: str) -> None:
    assert hook in DOCUMENTED, f"docs/plugins.md has no section for {hook}"
    signature, prose = DOCUMENTED[hook]
    assert signature == signature_text(hook)
    assert len(prose) > 20


def test_no_hook_is_documented_that_does_not_exist() -> None:
    assert set(re.findall(r"\bllmgw_(?:plugin|engine|accelerator|fabric|placement)_\w+", DOCS)) == set(HOOKS)


def test_hooks_are_documented_in_the_order_of_their_declaration() -> None:
    declared = sorted(HOOKS, key=lambda hook: inspect.getsourcelines(getattr(hookspecs, hook))[1])
    assert list(DOCUMENTED) == declared
