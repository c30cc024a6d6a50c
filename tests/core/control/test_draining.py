"""When a draining replica may be stopped: every gateway must have left it first."""

from __future__ import annotations

from llmgw_core.control.events import EventLog
from llmgw_core.control.gateways import GONE_AFTER, GatewayHub, GatewaySession
from llmgw_core.ports import StoreFacts
from llmgw_core.simulate.store import SimStore
from llmgw_core.simulate.trace import Trace
from llmgw_core.spec import Endpoint, Epoch, GatewayLoad, Table
from llmgw_core.timers import FAST

EPOCH = Epoch(number=3, control="cp")


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now


def _hub(clock: Hands) -> GatewayHub:
    return GatewayHub(
        SimStore(Trace()),
        StoreFacts("c", {}, b"p"),
        control="cp",
        is_foreign=lambda _: False,
        events=EventLog(clock),
        clock=clock,
        timers=FAST,
    )


def _table(version: int, state: str) -> Table:
    endpoint = Endpoint.model_validate(
        {"replica": "r", "model": "m", "url": "http://h:1", "engine": "e", "state": state}
    )
    return Table(epoch=EPOCH, version=version, complete=True, endpoints=(endpoint,))


def _session(hub: GatewayHub, load: GatewayLoad | None) -> GatewaySession:
    session = GatewaySession("g", None, load)  # type: ignore[arg-type]
    hub.enter(session)
    return session


def _load(version: int, **in_flight: int) -> GatewayLoad:
    return GatewayLoad(heard=EPOCH, table_version=version, in_flight=in_flight)


def test_a_replica_is_left_once_every_gateway_follows_a_table_in_which_it_drains() -> None:
    hub = _hub(Hands())
    session = _session(hub, None)
    hub.publish_table(_table(1, "ready"))
    assert hub.still_routed() == frozenset()
    hub.publish_table(_table(2, "draining"))
    hub.publish_table(_table(3, "draining"))
    for load, left in ((None, False), (_load(1), False), (_load(2), True), (_load(3), True)):
        session.load = load
        assert (hub.still_routed() == frozenset()) is left


def test_a_gateway_whose_stream_broke_counts_for_a_while() -> None:
    clock = Hands()
    hub = _hub(clock)
    session = _session(hub, _load(1, r=2))
    hub.publish_table(_table(2, "draining"))
    hub.leave(session)
    clock.now += GONE_AFTER - 1
    assert (dict(hub.in_flight()), hub.still_routed()) == ({"r": 2}, frozenset({"r"}))
    clock.now += 2
    assert (dict(hub.in_flight()), hub.still_routed()) == ({}, frozenset())


def test_a_gateway_that_comes_back_counts_once() -> None:
    hub = _hub(Hands())
    hub.leave(_session(hub, _load(1, r=2)))
    _session(hub, _load(1, r=3))
    assert hub.in_flight() == {"r": 3}


def test_a_new_control_plane_waits_for_gateways_that_may_have_requests_running() -> None:
    clock = Hands()
    hub = _hub(clock)
    assert not hub.settled
    clock.now += GONE_AFTER
    assert hub.settled
