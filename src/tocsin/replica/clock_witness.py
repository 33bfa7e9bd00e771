"""A leader whose wall clock is not believed learns that the clock of a stand-by is right.

Where replicas have a way to each other, the leader asks. Stand-bys on an etcd that they share have none, but all of
them read and write presence there. The presence of a leader that doubts its clock tells the time that it counts on from
the last one that was believed. A stand-by whose clock is believed and shows that time writes a presence of its own. It
lists no term, so it holds no lease and hinders no election. The leader reads it, and resigns.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from tocsin.decide.clock import AGREE_MS
from tocsin.errors import JournalError
from tocsin.journal.contract import PresenceStore, SeenPresence
from tocsin.model.presence import Presence
from tocsin.replica.clock_guard import ClockGuard
from tocsin.replica.liveness import Liveness
from tocsin.replica.office import ElectedOffice

log = structlog.get_logger()
EVERY_S = 2.0


class ClockWitness:
    """Runs in the thread of presence, on leaders and on stand-bys."""

    def __init__(
        self,
        name: str,
        store: PresenceStore,
        office: ElectedOffice,
        liveness: Liveness,
        clock: ClockGuard,
        seq: Callable[[], int],
    ) -> None:
        self._name = name
        self._store = store
        self._office = office
        self._liveness = liveness
        self._clock = clock
        self._seq = seq
        self._counter = 0
        self._versions: dict[str, int] = {}
        """Of the presence of each replica, as the leader here saw it last."""
        self.is_another_right = False
        """Does this replica lead without believing its wall clock, and is there another one that can go by its own?"""

    async def run(self, stop: asyncio.Event) -> None:
        while not await self._clock.wait(stop, EVERY_S):
            try:
                await self.once()
            except JournalError as wrong:
                log.debug("presence of stand-bys cannot be read or written", reason=wrong.message)

    async def once(self) -> None:
        term = self._office.term
        if term is not None and not self._clock.is_believed:
            await self._look(term)
            return
        self._versions.clear()
        self.is_another_right = False
        if term is None:
            await self._tell()

    async def _tell(self) -> None:
        """A replica that could not lead keeps silent."""
        leader = self._office.doubting_leader()
        if leader is None or not self._clock.is_believed or not self._liveness.is_disk_alive:
            return
        if abs(leader.offset_ms - self._clock.system_offset_ms()) > AGREE_MS:
            return
        self._counter += 1
        now_ms = self._clock.wall_ms()
        await self._store.put(
            self._name, Presence(self._counter, now_ms, {}, self._seq(), agrees_in_term=leader.term)
        )

    async def _look(self, term: int) -> None:
        """Only a record that was written since the last look is one of a replica that is there."""
        for name, version, presence in await self._present():
            was = self._versions.get(name)
            self._versions[name] = version
            if was not in (None, version) and presence.agrees_in_term == term and name != self._name:
                self.is_another_right = True

    async def _present(self) -> list[SeenPresence]:
        records = self._store.watch()
        async with contextlib.aclosing(records):  # type: ignore[type-var]  # why: engines write it as a generator
            async for seen in records:
                return seen
        return []
