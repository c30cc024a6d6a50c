"""The control plane's end of the gateway stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from llmgw_core.spec import (
    NO_EPOCH,
    GatewayHello,
    GatewayLoad,
    Keys,
    Refused,
    Secrets,
    StreamEnded,
    Table,
    Usage,
    UsageRow,
    UsageStored,
    Welcome,
    encode,
)

Simulated = Callable[[Callable[[Any], Any]], None]
HELLO = GatewayHello(instance="g", version="1", heard=NO_EPOCH)


def test_a_gateway_gets_secrets_keys_and_the_table(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.gateway() as peer:
            await peer.send(HELLO)
            await peer.expect(Welcome, gateway=True)
            secrets = await peer.expect(Secrets, gateway=True)
            assert bytes.fromhex(secrets.pepper.get_secret_value()) == b"pepper"
            assert (await peer.expect(Keys, gateway=True)).full
            table = await peer.expect(Table, gateway=True)
            assert [model.name for model in table.models] == ["small"]
            assert "unschedulable" in table.models[0].state

    simulated(test)


def test_a_changed_catalog_is_a_higher_version_of_the_table(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.gateway() as peer:
            await peer.send(HELLO)
            first = await peer.expect(Table, gateway=True)
            rig.catalog.text = rig.catalog.text.replace("small:", "tiny:")
            await rig.control.reload_catalog()
            second = await peer.expect(Table, gateway=True)
            assert [model.name for model in second.models] == ["tiny"]
            assert (second.epoch, second.version) == (first.epoch, first.version + 1)

    simulated(test)


def test_usage_is_stored_once_and_answered_each_time(simulated: Simulated) -> None:
    row = UsageRow(
        id="u1",
        key="k",
        model_asked="m",
        model="m",
        path="/v1/completions",
        duration=1,
        status=200,
        outcome="ok",
    )

    async def test(rig: Any) -> None:
        async with rig.gateway() as peer:
            await peer.send(HELLO)
            for batch in ("b1", "b2"):
                await peer.send(Usage(batch=batch, rows=(row,)))
                assert (await peer.expect(UsageStored, gateway=True)).batch == batch
            assert await rig.world.store.add_usage([row]) == 0

    simulated(test)


def test_requests_in_flight_are_summed_over_gateways_and_end_with_their_stream(simulated: Simulated) -> None:
    load = GatewayLoad(heard=NO_EPOCH, table_version=0, in_flight={"r": 2})

    async def test(rig: Any) -> None:
        async with rig.gateway() as one:
            async with rig.gateway() as two:
                for peer in (one, two):
                    await peer.send(HELLO)
                    await peer.send(load)
                while rig.control.gateways.in_flight() != {"r": 4}:
                    await anyio.sleep(0.1)
            while rig.control.gateways.in_flight() != {"r": 2}:
                await anyio.sleep(0.1)

    simulated(test)


def test_a_gateway_of_another_cluster_is_refused(simulated: Simulated) -> None:
    async def test(rig: Any) -> None:
        async with rig.gateway() as peer:
            await peer.send(HELLO.model_copy(update={"cluster": "other"}))
            assert (await peer.expect(Refused, gateway=True)).code == "wrong_cluster"

    simulated(test)


def test_a_gateway_that_hangs_up_while_it_is_refused_is_no_error(simulated: Simulated) -> None:
    class Gone:
        """Says hello as a stranger, and takes no answer."""

        async def receive(self) -> str:
            return encode(HELLO.model_copy(update={"cluster": "other"}))

        async def send(self, text: str) -> None:
            raise StreamEnded("the other side is gone")

        async def close(self) -> None:
            return

    async def test(rig: Any) -> None:
        await rig.control.gateways.serve(Gone())

    simulated(test)
