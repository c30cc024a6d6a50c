"""The control plane's end of the agent stream: who is let in, who is heard, who is cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llmgw_core.spec import (
    Ack,
    Assign,
    EngineFound,
    Epoch,
    Lead,
    LogsRequest,
    Refused,
    Reply,
    Report,
    RequestFailed,
    ShardStatus,
    Stamp,
    StreamEnded,
    Welcome,
)
from llmgw_core.testing.samples import report

Simulated = Callable[[Callable[[Any], Any]], None]


def _report(seq: int, heard: Epoch, **fields: Any) -> Report:
    return Report(seq=seq, heard=heard, applied=fields.pop("applied", None), **fields)


async def _join(peer: Any) -> Epoch:
    """Echo the lead, as an agent does."""
    lead = await peer.expect(Lead)
    await peer.send(_report(2, lead.epoch, echo=lead.epoch))
    return Epoch.model_validate(lead.epoch)


def test_a_node_is_welcomed_led_and_acknowledged(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.agent() as peer:
            welcome = await peer.expect(Welcome)
            assert (welcome.cluster, welcome.report_every) == ("simulated", 0.5)
            await _join(peer)
            assert (await peer.expect(Ack)).seq == 2

    simulated(test)


@pytest.mark.parametrize(
    ("fields", "code"), (({"wire": 99}, "wire_version"), ({"cluster": "other"}, "wrong_cluster"))
)
def test_a_stranger_is_refused_with_the_reason(
    fields: dict[str, Any], code: str, simulated: Simulated
) -> None:
    async def test(rig: Any) -> None:
        async with rig.agent(**fields) as peer:
            refused = await peer.expect(Refused)
            assert refused.code == code
            assert refused.message

    simulated(test)


def test_a_second_process_of_a_node_is_refused_while_the_first_answers(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.agent() as first:
            await _join(first)
            async with rig.agent(instance="i2") as second:
                ping = await first.expect(LogsRequest)
                await first.send(Reply(request=ping.request, error="unknown shard"))
                assert (await second.expect(Refused)).code == "agent_identity_in_use"

    simulated(test)


def test_a_second_process_takes_over_from_one_that_does_not_answer(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.agent() as first, rig.agent(instance="i2") as second:
            await second.expect(Welcome)
            with pytest.raises(StreamEnded):
                await first.expect(Refused)

    simulated(test)


def test_the_same_process_takes_over_its_own_stream_at_once(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.agent() as first, rig.agent() as second:
            await second.expect(Welcome)
            with pytest.raises(StreamEnded):
                await first.expect(Refused)

    simulated(test)


def test_a_silent_stream_is_closed(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.agent() as peer:
            await _join(peer)
            with pytest.raises(StreamEnded):
                await peer.expect(Refused)

    simulated(test)


def test_garbage_ends_the_stream_and_is_an_event(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.agent() as peer:
            await peer.expect(Lead)
            await peer.stream.send('{"type": "report", "seq": "many"}')
            with pytest.raises(StreamEnded):
                await peer.expect(Refused)
        kinds = [happened.event.kind for happened in rig.control.events.recent()]
        assert "protocol_error" in kinds

    simulated(test)


def test_nothing_is_assigned_before_the_lead_was_echoed(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        engines = (EngineFound(name="simulated", version="1", binary=("x",)),)
        node = report("n1", engines=engines, plugins={"simulated": "1"})
        async with rig.agent(report=node) as peer:
            epoch = await _join(peer)
            assign = await peer.expect(Assign)
            assert (assign.epoch, assign.number) == (epoch, 1)
            (shard,) = assign.run
            stored = {intent.shard.shard: intent for intent in await rig.world.store.intents()}
            assert stored[shard.shard].stamp == Stamp(epoch=epoch, number=1)
            assert set(assign.keys) == {shard.replica}
            assert "engine secret" not in repr(assign)

    simulated(test)


def test_an_assignment_that_is_not_applied_is_sent_again(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        engines = (EngineFound(name="simulated", version="1", binary=("x",)),)
        node = report("n1", engines=engines, plugins={"simulated": "1"})
        async with rig.agent(report=node) as peer:
            epoch = await _join(peer)
            first = await peer.expect(Assign)
            for seq in range(3, 8):
                await peer.send(_report(seq, epoch, applied=Stamp(epoch=epoch, number=0)))
                await peer.expect(Ack)
            second = await peer.expect(Assign)
            assert second.number > first.number
            assert second.run == first.run

    simulated(test)


def test_a_leader_that_meets_a_higher_epoch_leads_anew_above_it(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.agent(heard=Epoch(number=41, control="other")) as peer:
            await peer.expect(Lead)
            assert (await peer.expect(Lead)).epoch.number == 42

    simulated(test)


def test_logs_of_a_node_that_is_away_are_an_error_that_says_so(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        with pytest.raises(RequestFailed, match="n9 is not connected"):
            await rig.control.agents.logs("n9", "r-aaaaaaaaaa/0", 10)

    simulated(test)


def test_a_report_in_which_only_times_changed_asks_for_no_pass(simulated: Simulated) -> None:
    said = (("Ready", 1.0), ("Ready", 6.0), ("Failed", 0.0))

    async def test(rig: Any) -> None:
        async with rig.agent() as peer:
            epoch = await _join(peer)
            await peer.expect(Ack)
            woken: list[str] = []
            for seq, (state, seconds) in enumerate(said, start=3):
                rig.control.loop.wake = lambda text=f"{state} for {seconds:g} s": woken.append(text)
                status = ShardStatus.model_validate(
                    {"shard": "r-aaaaaaaaaa/0", "state": state, "for_seconds": seconds}
                )
                await peer.send(_report(seq, epoch, shards=(status,)))
                await peer.expect(Ack)
            assert woken == ["Ready for 1 s", "Failed for 0 s"]

    simulated(test)
