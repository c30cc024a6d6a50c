"""Which lines of SGLang's log mean which class of failure.

A failed start ends with SIGKILL of its own tree, like that of the kernel: only the words tell.
"""

from __future__ import annotations

from llmgw_core.spec import FailurePattern

PATTERNS: tuple[FailurePattern, ...] = ()
