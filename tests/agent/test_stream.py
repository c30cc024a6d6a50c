"""The agent's end of the stream: what it says, whom it obeys, and what a lost stream changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from llmgw_agent.disk import FileDisk
from llmgw_core.ports import AgentPorts
from llmgw_core.spec import (
    Assign,
    Bye,
    Epoch,
    Lead,
    LogsRequest,
    ProbeRequest,
    Refused,
    Register,
    Reply,
    Report,
    Shard,
    StopOrder,
)

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

MakeShard = Callable[..., Shard]
A1, B1, B2 = Epoch(number=1, control="A"), Epoch(number=1, control="B"), Epoch(number=2, control="B")


def said(node: Any, kind: type) -> list[Any]:
    """What the agent has sent of one kind, in order."""
    return [message for message in node.control.received if isinstance(message, kind)]


def saved(node: Any) -> Any:
    return json.loads((node.config.state_dir / "state.json").read_bytes())


async def echoed(node: Any, epoch: Epoch = A1) -> None:
    await node.control.until(lambda: node.control.echoed == epoch)


async def test_an_agent_registers_first_and_says_that_it_knows_of_no_assignment(node: Any) -> None:
    async with node.agent():
        await node.control.until(lambda: node.control.registers)
    register = node.control.received[0]
    assert isinstance(register, Register)
    assert (register.node, register.cluster, register.applied) == ("n1", None, None)
    assert register.report.cpus >= 1
    assert [engine.version for engine in register.report.engines] == ["7.1"]


async def test_it_reports_regularly_with_growing_numbers(node: Any) -> None:
    async with node.agent():
        await node.control.until(lambda: len(said(node, Report)) >= 4)
    numbers = [message.seq for message in node.control.received if isinstance(message, Register | Report)]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_lead_is_on_disk_before_it_is_echoed(node: Any) -> None:
    at_echo: list[Any] = []
    take = node.control._take

    async def watching(stream: Any, message: Any) -> None:
        if isinstance(message, Report) and message.echo:
            at_echo.append(saved(node)["heard"])
        await take(stream, message)

    node.control._take = watching
    async with node.agent():
        await echoed(node)
    assert at_echo == [{"number": 1, "control": "A"}]


async def test_a_stale_leader_is_neither_echoed_nor_obeyed(node: Any, make_shard: MakeShard) -> None:
    async with node.agent():
        await echoed(node)
        await node.control.send(Lead(cluster="c1", epoch=B1))
        await node.control.send(Assign(epoch=B1, number=1, run=(make_shard(),)))
        await node.control.assign()
        await node.control.until(lambda: said(node, Report)[-1].applied)
    assert said(node, Report)[-1].shards == ()
    assert {report.echo for report in said(node, Report)} == {None, A1}


async def test_a_new_leader_is_echoed_and_the_old_one_no_longer_obeyed(
    node: Any, make_shard: MakeShard
) -> None:
    shard = make_shard()
    async with node.agent():
        await node.control.run(shard)
        await node.control.reaches(shard, "Ready")
        await node.control.send(Lead(cluster="c1", epoch=B2))
        await echoed(node, B2)
        stop = StopOrder(shard=shard.shard, reason="stale")
        await node.control.send(Assign(epoch=A1, number=99, stop=(stop,)))
        node.control.epoch, node.control.number = B2, 0
        await node.control.assign()
        await node.control.until(lambda: said(node, Report)[-1].applied.epoch == B2)
        assert node.control.status(shard).state == "Ready"


async def test_a_cluster_that_the_node_does_not_belong_to_is_left(node: Any) -> None:
    async with node.agent():
        await echoed(node)
    node.control.cluster, node.control.received = "c2", []
    async with node.agent():
        await node.control.until(lambda: said(node, Bye))
    assert said(node, Bye)[0].reason == "wrong_cluster"
    assert saved(node)["cluster"] == "c1"


async def test_a_refusal_is_told_once_with_its_fix(node: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def refusing(stream: Any, message: Any) -> None:
        node.control.received.append(message)
        text = Refused(code="unauthorized", message="wrong token", fix="copy the token").model_dump_json()
        await stream.send(text)

    node.control._take = refusing
    async with node.agent():
        await node.control.until(lambda: len(said(node, Register)) >= 2)
    told = [record for record in caplog.records if "copy the token" in record.getMessage()]
    assert len([record for record in told if record.levelname == "WARNING"]) == 1


async def test_a_stream_without_acknowledgements_is_closed_and_opened_again(node: Any) -> None:
    node.control.acks = False
    async with node.agent():
        await node.control.until(lambda: len(node.control.registers) >= 2)
    assert said(node, Bye)[0].reason == "no_acknowledgement"


async def test_losing_the_control_plane_changes_nothing_on_the_node(node: Any, make_shard: MakeShard) -> None:
    shard = make_shard()
    async with node.agent():
        await node.control.run(shard)
        before = await node.control.reaches(shard, "Ready")
        node.control.reachable = False
        await node.control.stream.close()
        await node.control.until(lambda: node.control.stream is None)
        node.control.reachable = True
        await node.control.until(lambda: len(node.control.registers) == 2)
    (record,) = node.control.registers[1].shards
    assert (record.status.state, record.status.pid) == ("Ready", before.pid)
    assert node.control.registers[1].instance == node.control.registers[0].instance


async def test_an_unknown_message_is_ignored(node: Any) -> None:
    async with node.agent():
        await echoed(node)
        await node.control.stream.send('{"type": "from_the_future", "x": 1}')
        await node.control.assign()
        await node.control.until(lambda: said(node, Report)[-1].applied)
    assert len(node.control.registers) == 1


@pytest.mark.parametrize("text", ("no json", '{"type": "ack", "seq": "x"}'))
async def test_a_message_that_breaks_the_contract_ends_the_stream(node: Any, text: str) -> None:
    async with node.agent():
        await echoed(node)
        await node.control.stream.send(text)
        await node.control.until(lambda: len(node.control.registers) == 2)
    assert said(node, Bye)[0].reason == "protocol"


async def test_logs_are_sent_with_the_name_of_the_process(node: Any, make_shard: MakeShard) -> None:
    shard = make_shard(say="hello the-key-of-this-engine")
    async with node.agent():
        await node.control.run(shard)
        await node.control.reaches(shard, "Ready")
        await node.control.send(LogsRequest(request="q1", shard=shard.shard, lines=5))
        await node.control.send(LogsRequest(request="q2", shard="r-zzzzzzzzzz/0"))
        await node.control.send(ProbeRequest(request="q3", shard=shard.shard))
        await node.control.until(lambda: len(said(node, Reply)) == 3)
    replies = {reply.request: reply for reply in said(node, Reply)}
    assert replies["q1"].text == "[engine] fake engine hello [engine key]"
    assert replies["q2"].error == "r-zzzzzzzzzz/0 is not known on this node"
    assert replies["q3"].text == "ready"


async def test_a_token_that_comes_later_is_enough(node: Any) -> None:
    node.config.token_file.unlink()
    async with node.agent() as agent:
        await node.control.until(lambda: agent.keeper.state.records is not None)
        assert node.control.registers == []
        node.config.token_file.write_text("agent-token\n")
        await node.control.until(lambda: node.control.registers)


async def test_an_assignment_while_the_node_drains_is_not_applied(node: Any, make_shard: MakeShard) -> None:
    first, second = make_shard(ignore_term=None), make_shard("r-bbbbbbbbbb")
    async with node.agent() as agent:
        await node.control.run(first)
        await node.control.reaches(first, "Ready")
        applied = said(node, Report)[-1].applied
        agent.stop(drain=True)
        await node.control.reaches(first, "Stopping")
        await node.control.run(second)
        await node.control.reaches(first, "Stopped")
        await node.control.until(lambda: said(node, Bye))
    assert said(node, Report)[-1].applied == applied
    assert node.control.status(second) is None
    assert [report.report.draining for report in said(node, Report) if report.report] == [True]


async def test_a_change_of_the_node_is_reported_once(node: Any) -> None:
    async with node.agent() as agent:
        await echoed(node)
        agent._discover = lambda: agent._last_report().model_copy(update={"labels": {"rack": "7"}})
        agent.rediscover()
        await node.control.until(lambda: any(report.report for report in said(node, Report)))
        sent = len(said(node, Report))
        await node.control.until(lambda: len(said(node, Report)) > sent + 1)
    changes = [report.report for report in said(node, Report) if report.report]
    assert [dict(change.labels) for change in changes] == [{"rack": "7"}]


async def test_the_end_of_a_shard_may_be_evicted_once_the_leader_has_acknowledged_it(
    node: Any, make_shard: MakeShard
) -> None:
    shard = make_shard(fail=1)
    async with node.agent() as agent:
        await node.control.run(shard)
        await node.control.reaches(shard, "Failed")
        await node.control.until(lambda: agent.keeper.state.records[shard.shard].seen_by == A1)


async def test_a_shard_that_is_stopped_and_dismissed_at_once_harms_nobody(
    node: Any, make_shard: MakeShard
) -> None:
    first, second = make_shard(ignore_term=None), make_shard("r-bbbbbbbbbb")
    async with node.agent():
        await node.control.run(first)
        await node.control.reaches(first, "Ready")
        await node.control.stop(first, grace=1.0)
        await node.control.run(second)
        await node.control.reaches(second, "Pending")
        stop = StopOrder(shard=second.shard, reason="not wanted")
        await node.control.assign(stop=(stop,), dismiss=(second.shard,))
        await node.control.reaches(first, "Stopped")
        assert node.control.status(second) is None
        assert len(node.control.registers) == 1


async def test_a_dismissed_shard_leaves_neither_record_nor_log(node: Any, make_shard: MakeShard) -> None:
    shard = make_shard(fail=1)
    async with node.agent():
        await node.control.run(shard)
        await node.control.reaches(shard, "Failed")
        assert node.log(shard)
        await node.control.assign(dismiss=(shard.shard,))
        await node.control.until(lambda: node.control.status(shard) is None)
        logs = node.config.state_dir / "logs" / "r-aaaaaaaaaa-0"
        await node.control.until(lambda: not logs.exists())
        assert not node.file(shard).exists()


@dataclass
class FullDisk(FileDisk):
    """A disk that takes no more writes while `full` is set."""

    full: bool = False
    refused: list[str] = field(default_factory=list)

    async def write(self, path: str, content: bytes) -> None:
        if self.full:
            self.refused.append(path)
            raise OSError(28, "No space left on device", path)
        await super().write(path, content)


async def test_an_assignment_that_cannot_be_written_down_is_not_acted_on(
    node: Any, make_shard: MakeShard
) -> None:
    disk, shard = FullDisk(), make_shard()
    ports: AgentPorts = replace(node.ports(), disk=disk)
    node.ports = lambda: ports
    async with node.agent():
        await echoed(node)
        disk.full = True
        await node.control.run(shard)
        await node.control.until(lambda: disk.refused)
        await node.control.until(lambda: len(node.control.registers) >= 2)
        assert node.control.registers[-1].shards == ()
        disk.full = False
        await node.control.run(shard)
        await node.control.reaches(shard, "Ready")


async def test_an_exit_is_reported_while_the_disk_is_full_and_written_later(
    node: Any, make_shard: MakeShard
) -> None:
    disk, shard = FullDisk(), make_shard()
    ports: AgentPorts = replace(node.ports(), disk=disk)
    node.ports = lambda: ports
    async with node.agent():
        await node.control.run(shard)
        ready = await node.control.reaches(shard, "Ready")
        disk.full = True
        await node.kill(ready.pid)
        await node.control.reaches(shard, "Failed")
        assert json.loads(node.file(shard).read_bytes())["state"] == "Ready"
        disk.full = False
        await node.control.until(lambda: json.loads(node.file(shard).read_bytes())["state"] == "Failed")
