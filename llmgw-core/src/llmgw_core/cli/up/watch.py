"""What `llmgw up` sees: the admin API's status and the gateway's models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import anyio
import anyio.to_thread

from llmgw_core.cli.admin_client import AdminClient
from llmgw_core.cli.admin_view import ClusterStatus, ModelRow, NodeRow, ReplicaRow, read_status
from llmgw_core.spec.errors import RequestFailed


@dataclass(frozen=True)
class Sight:
    """One look. `status` and `served` are None while control plane and gateway do not answer.

    `served` has each model that the gateway knows, and whether it has somewhere to send a request.
    """

    status: ClusterStatus | None = None
    served: Mapping[str, bool] | None = None

    def replicas_of(self, model: str) -> tuple[ReplicaRow, ...]:
        rows = self.status.replicas if self.status else ()
        return tuple(row for row in rows if row.model == model)

    def answering(self) -> tuple[str, ...]:
        """Models that answer now, as both see it: a gateway also tries replicas that are unknown."""
        ready = {model.name for model in self.models() if model.state == "ready"}
        return tuple(name for name, routable in (self.served or {}).items() if routable and name in ready)

    def models(self) -> tuple[ModelRow, ...]:
        return self.status.models if self.status else ()

    def node(self) -> NodeRow | None:
        """This machine, once its agent has reported: an `up` has one node."""
        ready = [row for row in (self.status.nodes if self.status else ()) if row.state == "ready"]
        return min(ready, key=lambda row: row.silence or 0.0, default=None)


class Watcher:
    """Looks at control plane and gateway."""

    def __init__(self, admin: AdminClient, gateway: AdminClient) -> None:
        self._admin = admin
        self._gateway = gateway
        self.sight = Sight()

    async def look(self) -> Sight:
        """Ask both once; one that does not answer is None in what is returned."""
        seen = Sight()
        async with anyio.create_task_group() as group:

            async def ask_admin() -> None:
                nonlocal seen
                answer = await self._ask(self._admin, "/admin/v1/status")
                seen = replace(seen, status=None if answer is None else _status(answer))

            async def ask_gateway() -> None:
                nonlocal seen
                answer = await self._ask(self._gateway, "/v1/models")
                seen = replace(seen, served=_served(answer))

            group.start_soon(ask_admin)
            group.start_soon(ask_gateway)
        self.sight = seen
        return seen

    async def _ask(self, client: AdminClient, path: str) -> object:
        try:
            return await anyio.to_thread.run_sync(client.call, "GET", path, abandon_on_cancel=True)
        except RequestFailed:
            return None


def _status(answer: object) -> ClusterStatus | None:
    try:
        return read_status(answer)
    except RequestFailed:
        return None


def _served(answer: object) -> dict[str, bool] | None:
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        return None
    return {str(row["id"]): bool(row.get("ready")) for row in rows if isinstance(row, dict) and "id" in row}
