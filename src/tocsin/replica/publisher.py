"""The leader stores its newest snapshot beside the journal, where the replicas have no way to each other.

A stand-by that was away while the journal was trimmed begins from there. The journal is trimmed only up to what is
stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from tocsin.clock import Clock
from tocsin.errors import JournalError
from tocsin.journal.contract import SnapshotStore
from tocsin.replica.nagging import Nag
from tocsin.replica.peers import NoPeers
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest

log = structlog.get_logger()
EVERY_S = 1.0
"""So often it looks, in memory, whether there is a newer one."""


class SnapshotPublisher:
    """Runs beside the leader."""

    def __init__(
        self,
        store: SnapshotStore,
        folder: Path,
        clock: Clock,
        newest: Callable[[], Manifest | None],
        is_leader: Callable[[], bool],
    ) -> None:
        self._store = store
        self._folder = folder
        self._clock = clock
        self._newest = newest
        self._is_leader = is_leader
        self._stored: Manifest | None = None
        self._nag = Nag(clock)
        self._stop = asyncio.Event()

    @property
    def stored_seq(self) -> int:
        """The journal up to here is not needed by stand-bys."""
        return 0 if self._stored is None else self._stored.seq

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        while not await self._clock.wait(self._stop, EVERY_S):
            if self._is_leader():
                await self.once()
            else:
                self._stored = None  # another leader replaces it
        await self._store.close()

    async def once(self) -> None:
        newest = self._newest()
        if newest is None or newest == self._stored:
            return
        try:
            if self._stored is None:
                self._stored = await self._store.newest()
            if newest != self._stored:
                await self._put(newest)
        except (JournalError, OSError) as wrong:  # a file that was removed meanwhile has a successor
            self._stored = None
            if self._nag.is_due(str(wrong)):
                log.warning(
                    "the snapshot was not stored beside the journal", seq=newest.seq, reason=str(wrong)
                )

    async def _put(self, newest: Manifest) -> None:
        is_whole = await self._store.put(newest, snapshot.data_of(self._folder, newest.seq))
        self._stored = newest
        if is_whole:
            self._nag.over()
        elif self._nag.is_due("size"):
            log.warning(
                "the snapshot is too large to be stored beside the journal: stand-bys that fall behind cannot return",
                bytes=newest.size,
                remedy="give all replicas --cluster and --cluster-secret: then they lend each other theirs",
            )


class StoredSnapshots(NoPeers):
    """The other replicas cannot be reached, but the leader's snapshot can."""

    def __init__(self, store: SnapshotStore) -> None:
        self._store = store

    async def fetch_snapshot(
        self, incarnation: str, least: int, folder: Path, newest: object = None
    ) -> Manifest | None:
        found = await self._store.newest()
        if found is None or found.incarnation != incarnation or found.seq < least:
            return None
        return await self._store.fetch(folder)
