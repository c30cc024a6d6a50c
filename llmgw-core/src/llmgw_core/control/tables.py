"""Numbers the endpoint table and hands it to the gateways when its content changed."""

from __future__ import annotations

from llmgw_core.control.gateways import GatewayHub
from llmgw_core.control.loop import Snapshot
from llmgw_core.reconcile.table import endpoints, model_entries
from llmgw_core.spec import NO_EPOCH, Epoch, Table


class TableMaker:
    """Versions begin anew with each leadership; gateways follow the highest (epoch, version)."""

    def __init__(self, gateways: GatewayHub) -> None:
        self._gateways = gateways
        self._last: Table | None = None

    def publish(self, snapshot: Snapshot) -> None:
        """Send the table of this snapshot, unless gateways have it already."""
        epoch = snapshot.actual.epoch
        table = self._table(snapshot, epoch, self._version(epoch))
        if self._last is not None and table.model_copy(update={"version": self._last.version}) == self._last:
            return
        self._last = table
        self._gateways.publish_table(table)

    def _version(self, epoch: Epoch) -> int:
        if self._last is None or self._last.epoch != epoch or epoch == NO_EPOCH:
            return 1
        return self._last.version + 1

    def _table(self, snapshot: Snapshot, epoch: Epoch, version: int) -> Table:
        states = {standing.model: standing.for_clients for standing in snapshot.standings}
        nodes = snapshot.actual.nodes.values()
        return Table(
            epoch=epoch,
            version=version,
            complete=all(node.speaks or node.freshness == "lost" for node in nodes),
            models=model_entries(snapshot.catalog, states, snapshot.backoff, snapshot.at),
            endpoints=endpoints(snapshot.replicas, snapshot.catalog, snapshot.actual),
            gateways_live=max(self._gateways.live, 1),
        )
