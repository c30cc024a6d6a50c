"""Leadership under what goes wrong within a pass: store errors, foreign epochs, nodes that come back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from llmgw_core.simulate.store import SimStore
from llmgw_core.simulate.world import until
from llmgw_core.spec import (
    NO_EPOCH,
    Assign,
    EngineFound,
    Epoch,
    GatewayHello,
    Lead,
    LogsRequest,
    Refused,
    Reply,
    Report,
    ShardStatus,
    StoreUnavailable,
    Table,
    Welcome,
    decode,
)
from llmgw_core.testing.samples import report

Simulated = Callable[[Callable[[Any], Any]], None]
NODE = report(
    "n1", engines=(EngineFound(name="simulated", version="1", binary=("x",)),), plugins={"simulated": "1"}
)


@dataclass
class Failing:
    """A call of the store that fails as often as it is told to, and takes as long."""

    call: Callable[..., Awaitable[Any]]
    failures: int = 0
    open: anyio.Event = field(default_factory=anyio.Event)
    asked: anyio.Event = field(default_factory=anyio.Event)

    async def __call__(self, *args: Any) -> Any:
        self.asked.set()
        await self.open.wait()
        self.failures -= 1
        if self.failures >= 0:
            raise StoreUnavailable("it does not answer")
        return await self.call(*args)


def _fail(rig: Any, name: str, times: int) -> None:
    failing = Failing(getattr(rig.world.store, name), times)
    failing.open.set()
    setattr(rig.world.store, name, failing)


async def _echo(peer: Any, *shards: ShardStatus) -> Epoch:
    lead = await peer.expect(Lead)
    await peer.send(Report(seq=2, heard=lead.epoch, applied=None, echo=lead.epoch, shards=shards))
    return Epoch.model_validate(lead.epoch)


@pytest.mark.parametrize("call", ("take_lead", "intents"))
def test_a_store_that_fails_while_the_lead_is_taken_only_delays_it(call: str, simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.agent() as peer:
            await _echo(peer)
            _fail(rig, call, 2)
            await peer.send(Report(seq=3, heard=Epoch(number=41, control="other"), applied=None))
            epoch = await _echo(peer)
            assert epoch.number > 41
            await until(lambda: rig.control.snapshot.actual.nodes["n1"].connected, within=60)
            assert rig.control.snapshot.actual.epoch == epoch

    simulated(test)


def test_a_fenced_leader_leads_anew_though_the_store_fails_first(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.agent(report=NODE) as peer:
            await peer.expect(Lead)
            await rig.world.store.take_lead("other", 6)
            _fail(rig, "take_lead", 2)
            await peer.send(Report(seq=2, heard=NO_EPOCH, applied=None, echo=rig.control.epoch))
            assert (await peer.expect(Lead)).epoch.number == 8

    simulated(test)


def test_an_equal_number_of_another_process_counts_also_when_agents_heard_this_one(
    simulated: Simulated,
) -> None:
    async def test(rig: Any) -> None:
        async with rig.agent() as agent:
            own = await _echo(agent)
            await until(lambda: rig.control.snapshot.actual.nodes["n1"].connected, within=60)
            async with rig.gateway() as gateway:
                other = Epoch(number=own.number, control="other")
                await gateway.send(GatewayHello(instance="g", version="1", heard=other))
                await until(lambda: rig.control.epoch.number > own.number, within=60)

    simulated(test)


def test_a_number_out_of_all_proportion_is_nobody_s_leadership(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        own = rig.control.epoch
        async with rig.agent(heard=Epoch(number=2**63, control="other")) as peer:
            await _echo(peer)
            await until(lambda: rig.control.snapshot.actual.nodes["n1"].connected, within=60)
            assert rig.control.epoch == own

    simulated(test)


def test_nothing_decided_before_a_node_came_back_is_sent_to_it(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        store = rig.world.store
        async with rig.agent(report=NODE) as first:
            slow = store.write_intents = Failing(store.write_intents)
            await _echo(first)
            await slow.asked.wait()
            async with rig.agent(report=NODE) as second:
                lead = await second.expect(Lead)
                slow.open.set()
                with anyio.move_on_after(2):  # less than the silence that ends a stream
                    await second.expect(Assign)
                    pytest.fail("an assignment came before the lead was echoed")
                await second.send(Report(seq=2, heard=lead.epoch, applied=None, echo=lead.epoch))
                assert (await second.expect(Assign)).run

    simulated(test)


def test_of_two_processes_that_come_at_once_for_a_dead_one_only_one_stays(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with (
            rig.agent(),
            rig.agent(instance="i2") as second,
            rig.agent(instance="i3") as third,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(_answer_pings, second)
            assert (await third.expect(Refused)).code == "agent_identity_in_use"
            tasks.cancel_scope.cancel()

    simulated(test)


async def _answer_pings(peer: Any) -> None:
    await peer.expect(Welcome)
    while True:
        ping = await peer.expect(LogsRequest)
        await peer.send(Reply(request=ping.request, error="unknown shard"))


def test_what_runs_is_known_though_the_store_forgot_it(simulated: Simulated) -> None:
    """The store is restored to a state from before a shard that was started on the present stream."""

    async def test(rig: Any) -> None:
        async with rig.agent(report=NODE) as peer:
            await _echo(peer)
            (shard,) = (await peer.expect(Assign)).run
            ready = ShardStatus(shard=shard.shard, state="Ready")
            await peer.send(Report(seq=3, heard=rig.control.epoch, applied=None, shards=(ready,)))
            vars(rig.world.store).update(vars(SimStore(rig.world.trace)))
            await peer.send(Report(seq=4, heard=Epoch(number=9, control="x"), applied=None, shards=(ready,)))
            await _echo(peer, ready)
            await until(lambda: rig.control.snapshot.actual.nodes["n1"].connected, within=60)
            (replica,) = rig.control.snapshot.replicas
            assert (replica.id, replica.state) == (shard.replica, "Ready")
            assert [intent.shard.shard for intent in await rig.world.store.intents()] == [shard.shard]

    simulated(test)


def test_an_engine_that_ended_leaves_the_table_though_the_store_does_not_answer(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.agent(report=NODE) as peer, rig.gateway() as gateway:
            await gateway.send(GatewayHello(instance="g", version="1", heard=NO_EPOCH))
            epoch = await _echo(peer)
            (shard,) = (await peer.expect(Assign)).run
            await peer.send(_says(3, epoch, ShardStatus(shard=shard.shard, state="Ready")))
            await _table_with(gateway, 1)
            _fail(rig, "write_intents", 10**9)
            await peer.send(_says(4, epoch, ShardStatus(shard=shard.shard, state="Failed")))
            with anyio.fail_after(3):  # in virtual time; after 10 s the node would be Lost
                await _table_with(gateway, 0)

    simulated(test)


def _says(seq: int, epoch: Epoch, status: ShardStatus) -> Report:
    return Report(seq=seq, heard=epoch, applied=None, shards=(status,))


async def _table_with(gateway: Any, endpoints: int) -> None:
    while len((await gateway.expect(Table, gateway=True)).endpoints) != endpoints:
        pass


def test_a_first_message_that_is_garbage_is_refused_with_the_field(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.world.network.open("agent", "ws://control/agent/v1/stream") as stream:
            await stream.send('{"type": "register", "wire": 1}')
            refused = decode(await stream.receive())
            assert isinstance(refused, Refused)
            assert (refused.code, "node" in refused.message) == ("protocol", True)

    simulated(test)
