"""Actions reach agents: level-triggered assignments, stamped in the store before they leave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pydantic import SecretStr

from llmgw_core.control.fleet import Fleet, Node
from llmgw_core.inventory.node_view import NodeView
from llmgw_core.ports import Clock, IntentChange, Store
from llmgw_core.reconcile.assignment import Orders, orders_for
from llmgw_core.spec import Assign, Epoch, Intent, Shard, Stamp, engine_key
from llmgw_core.timers import Timers

RESEND_BEATS = 2


class Dispatcher:
    """Sends a node what it should run and stop, when that changed or was not applied in time."""

    def __init__(
        self,
        fleet: Fleet,
        store: Store,
        engine_secrets: Mapping[int, bytes],
        *,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self._fleet, self._store, self._secrets = fleet, store, engine_secrets
        self._clock, self._timers = clock, timers

    async def dispatch(
        self,
        epoch: Epoch,
        views: Mapping[str, NodeView],
        intents: dict[str, Intent],
        dismiss: Mapping[str, frozenset[str]],
    ) -> None:
        """Send to every connected node what it needs. `intents` is updated with the stamps it gave.

        Raises Fenced when another leader holds the store: then nothing of it may leave.
        """
        own: defaultdict[str, dict[str, Intent]] = defaultdict(dict)
        for shard, intent in intents.items():
            own[intent.shard.node][shard] = intent
        for name, view in views.items():
            node = self._fleet.nodes[name]
            if view.connected:
                orders = orders_for(view, own[name], views, epoch, dismiss.get(name, frozenset()))
                if self._is_due(node, view, orders, epoch):
                    await self._send(node, view, orders, epoch, intents)

    def _is_due(self, node: Node, view: NodeView, orders: Orders, epoch: Epoch) -> bool:
        if node.sent is None and not orders:
            return False
        if orders != node.sent:
            return True
        newest = Stamp(epoch=epoch, number=node.number)
        behind = view.applied is None or not view.applied.at_or_above(newest)
        return behind and self._clock.monotonic() - node.sent_at >= RESEND_BEATS * self._timers.report

    async def _send(
        self, node: Node, view: NodeView, orders: Orders, epoch: Epoch, intents: dict[str, Intent]
    ) -> None:
        number = node.number + 1
        named = [intents[shard.shard] for shard in orders.run] + [intents[stop.shard] for stop in orders.stop]
        stamped = tuple(i.model_copy(update={"number": number}) for i in named if i.number is None)
        if stamped:
            await self._store.write_intents(epoch, IntentChange(put=stamped))
            intents.update({intent.shard.shard: intent for intent in stamped})
        if node.registrations != view.registration:
            # It came back while the store wrote. If it has lost its state, what it is seen to run would be
            # started a second time; and it has not echoed the lead on its new stream.
            return
        node.sending(number, orders, self._clock.monotonic())
        if node.stream is not None:
            node.stream.post(
                Assign(
                    epoch=epoch,
                    number=number,
                    run=orders.run,
                    stop=orders.stop,
                    keys=self._keys(orders.run),
                    dismiss=orders.dismiss,
                )
            )

    def _keys(self, shards: Sequence[Shard]) -> dict[str, SecretStr]:
        return {
            shard.replica: SecretStr(engine_key(secret, shard.key_version, shard.replica))
            for shard in shards
            if (secret := self._secrets.get(shard.key_version)) is not None
        }
