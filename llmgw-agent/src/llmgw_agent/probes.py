"""Whether a shard can be used: startup, weights, one inference; then, quietly, whether it still lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from llmgw_core.node.state import Record
from llmgw_core.plugins import PluginHost
from llmgw_core.ports import Net
from llmgw_core.spec import Launch, PluginError, Probe, ProbeResponse, Probes, Readiness, Shard

Question = Literal["startup", "readiness", "inference"]
QUESTIONS: tuple[Question, ...] = ("startup", "readiness", "inference")


@dataclass(frozen=True)
class Prober:
    """Asks the engine of one shard; `probes` is None for a rank that serves no HTTP.

    The key comes with each call: after a lost state it is known only when a leader names the shard again.
    """

    shard: Shard
    probes: Probes | None
    plugins: PluginHost
    net: Net

    async def readiness(self, key: str | None) -> Readiness:
        """Ask the three questions in order, each only after the one before was answered well.

        A rank without HTTP is judged by staying alive, so it is always ready.
        """
        if self.probes is None:
            return Readiness(ready=True)
        responses: dict[str, ProbeResponse] = {}
        for question in QUESTIONS:
            responses[question] = await self._ask(getattr(self.probes, question), key)
            if not _good(responses[question]):
                break
        return self._judge(responses)

    async def liveness(self, key: str | None) -> str | None:
        """What is wrong with it now, None when it answers well."""
        if self.probes is None:
            return None
        answer = await self._ask(self.probes.liveness, key)
        if _good(answer):
            return None
        return answer.error or f"{self.probes.liveness.path} answered {answer.status}"

    def _judge(self, responses: Mapping[str, ProbeResponse]) -> Readiness:
        try:
            readiness: Readiness = self.plugins.call_one(
                self.shard.engine, "llmgw_engine_ready", shard=self.shard, responses=responses
            )
        except PluginError as error:
            return Readiness(ready=False, reason=str(error))
        asked_all = responses.keys() == set(QUESTIONS) and all(map(_good, responses.values()))
        if readiness.ready and not asked_all:
            return Readiness(ready=False, reason=f"{list(responses)[-1]} was not answered well yet")
        return readiness

    async def _ask(self, probe: Probe, key: str | None) -> ProbeResponse:
        host = f"[{self.shard.address}]" if ":" in self.shard.address else self.shard.address
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if probe.body is not None:
            headers["Content-Type"] = "application/json"
        try:
            reply = await self.net.request(
                probe.method,
                f"http://{host}:{self.shard.http_port}{probe.path}",
                headers=headers,
                body=probe.body,
                timeout=probe.timeout,
            )
        except OSError as error:
            return ProbeResponse(error=str(error) or type(error).__name__)
        return ProbeResponse(status=reply.status, body=reply.body)


def prober(record: Record, launch: Launch, plugins: PluginHost, net: Net) -> Prober:
    """The prober of a shard. Raises PluginError when its plugin cannot say what to ask."""
    probes: Probes | None = plugins.call_one(
        record.shard.engine, "llmgw_engine_probes", shard=record.shard, launch=launch
    )
    return Prober(record.shard, probes, plugins, net)


def _good(response: ProbeResponse) -> bool:
    return response.status is not None and 200 <= response.status < 300
