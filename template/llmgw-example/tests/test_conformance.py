"""Every rule of an engine plugin; a failure says which is broken and where to read about it."""

import llmgw_example
from llmgw_core.testing.engine import EngineTests


class TestExample(EngineTests):
    plugin = llmgw_example
    name = "example"
