"""What plugin authors test with: suites to subclass (`fabric`), recorded machines (`hosts`), samples.

Nothing here is loaded by llmgw itself, nor by pytest unless a test asks for it.
"""

from __future__ import annotations

import sys

SUITES = tuple(
    f"llmgw_core.testing.{name}"
    for name in (
        "rules",
        "fabric",
        "engine",
        "engine_facts",
        "engine_commands",
        "engine_arguments",
        "engine_answers",
        "scoring",
    )
)
"""Modules with rules; in a test run their assertions show the values that they compared."""

if "pytest" in sys.modules:
    sys.modules["pytest"].register_assert_rewrite(*SUITES)
