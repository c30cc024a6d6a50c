from llmgw_core.testing.engine import EngineTests
from llmgw_sglang import plugin as sglang


class TestSglang(EngineTests):
    plugin = sglang
    name = "sglang"
    first_party = True
    key_on_command_line = "<0.5.4"  # no file and no variable took it before
