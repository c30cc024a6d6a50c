from llmgw_core.spec import Capability
from llmgw_core.testing.engine import EngineTests
from llmgw_vllm import plugin as vllm


class TestVllm(EngineTests):
    plugin, name = vllm, "vllm"
    first_party = True
    versions = ("0.32.0+cpu",)
    exempt = {Capability.RERANK: "vLLM has it; it is refused until somebody has run one"}  # noqa: RUF012
