from llmgw_core.testing.engine import EngineTests
from llmgw_llamacpp import plugin as llamacpp


class TestLlamacpp(EngineTests):
    plugin = llamacpp
    name = "llamacpp"
    first_party = True
