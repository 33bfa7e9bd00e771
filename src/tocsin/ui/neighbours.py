"""The replicas, as pages show them: asked at most once a second, and never waited for long.

A machine that was cut off does not refuse, it just does not answer. A page then shows what was heard before rather than
nothing; the next look, two seconds later, knows more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tocsin.api.resources import replicas
from tocsin.api.service import Service
from tocsin.model.cluster import ClusterView, PeerStatus
from tocsin.replica.peers import NoPeers

FRESH_S = 1.0
PATIENCE_S = 0.15
PATIENCE_FIRST_S = 1.0


class Look(NamedTuple):
    """The cluster as it was a moment ago."""

    view: ClusterView
    statuses: Mapping[str, PeerStatus]
    """Of those that answered, this one among them."""
    at_s: float


class Neighbours:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._last: Look | None = None
        self._asking: asyncio.Task[Look] | None = None

    async def look(self) -> Look:
        if isinstance(self._service.around.peers, NoPeers):
            return await self._ask()  # nobody else has to be asked
        now_s = self._service.replica.clock.elapsed_s()
        if self._last is not None and now_s - self._last.at_s < FRESH_S:
            return self._last
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name="neighbours")
        asking = self._asking
        await asyncio.wait([asking], timeout=PATIENCE_FIRST_S if self._last is None else PATIENCE_S)
        if self._last is None or asking.done():
            return await asyncio.shield(asking)
        return self._last

    async def _ask(self) -> Look:
        service = self._service
        try:
            before_ms = service.replica.clock.system_ms()
            heard = await service.around.peers.statuses()
            own = service.replica.status()
            asked = replicas.Asked(before_ms, service.replica.clock.system_ms())
            joined = service.replica.parts.rounds.joined()
            view = replicas.view(own, heard, service.around.members(), asked, joined)
            statuses = {
                name: status for name, status in {**heard, own.name: own}.items() if status is not None
            }
            self._last = Look(view, statuses, service.replica.clock.elapsed_s())
            return self._last
        finally:
            self._asking = None


_of_services: WeakKeyDictionary[Service, Neighbours] = WeakKeyDictionary()


async def look_around(service: Service) -> Look:
    found = _of_services.get(service)
    if found is None:
        found = _of_services[service] = Neighbours(service)
    return await found.look()
