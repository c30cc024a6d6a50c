from llmgw_core.testing.engine import EngineTests
from llmgw_vllm import plugin as vllm


class TestVllm(EngineTests):
    plugin = vllm
    name = "vllm"
    first_party = True
    versions = ("0.32.0+cpu",)
