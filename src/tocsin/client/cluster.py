"""The replicas of a service."""

from __future__ import annotations

from tocsin.client.asking import Asking
from tocsin.model.clock import ClockView, ConfirmClockRequest, RepairDueRequest, RepairView
from tocsin.model.cluster import ClusterView
from tocsin.model.limit import LimitsView
from tocsin.model.request import AddReplicaRequest, RemoveReplicaRequest


class Clusters(Asking):
    """The part of the client that deals with replicas."""

    async def cluster(self) -> ClusterView:
        """Who leads, and how far each replica is, as the one that answers sees it."""
        return await self._get("/v1/cluster", ClusterView)

    async def limits(self) -> LimitsView:
        """Limits of rate and concurrency, and how each of them stands."""
        return await self._get("/v1/limits", LimitsView)

    async def clock(self) -> ClockView:
        """The leader's wall clock, and whether it is believed."""
        return await self._get("/v1/clock", ClockView)

    async def confirm_clock(self, now: str) -> ClockView:
        """The leader's wall clock is right; ``now`` is what it shows, RFC 3339."""
        return await self._post("/v1/clock:confirm", ClockView, ConfirmClockRequest(now))

    async def repair_due(self, *, prefix: str = "", preview: bool = False, after: str = "") -> RepairView:
        """Compute next instants anew that are later than they should be: of the next some thousand schedules behind
        ``after``. While the answer has an ``after``, there are more."""
        return await self._post("/v1/due:repair", RepairView, RepairDueRequest(prefix, preview, after))

    async def step_down(self) -> ClusterView:
        """Have the leader resign: another replica takes office within a second."""
        return await self._post("/v1/cluster:step-down", ClusterView, {})

    async def add_replica(self, name: str, peer: str) -> ClusterView:
        """From now on a replica of that name may join. ``peer``: HOST:PORT at which the others reach it."""
        return await self._post("/v1/cluster:add", ClusterView, AddReplicaRequest(name, peer))

    async def remove_replica(self, name: str) -> ClusterView:
        return await self._post("/v1/cluster:remove", ClusterView, RemoveReplicaRequest(name))
