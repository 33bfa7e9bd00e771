"""Snapshots on an interval, and the journal trimmed behind them.

Two snapshots are kept and the journal is trimmed only behind the older one: if the newer turns out damaged, the
older one and the journal still add up to everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import structlog

from tocsin.clock import Clock
from tocsin.errors import JournalError
from tocsin.journal.contract import Journal
from tocsin.observe.metrics import Metrics
from tocsin.state import snapshot
from tocsin.state.store import Store

log = structlog.get_logger()
SNAPSHOTS_KEPT = 2


class Snapshotter:
    """Runs beside the leader and only ever reads the state."""

    def __init__(
        self,
        journal: Journal,
        store: Store,
        folder: Path,
        clock: Clock,
        metrics: Metrics,
        interval_s: float,
    ) -> None:
        self._journal = journal
        self._store = store
        self._folder = folder
        self._clock = clock
        self._metrics = metrics
        self._interval_s = interval_s
        self._stop = asyncio.Event()
        newest = snapshot.manifests(folder)[:1]
        self.newest: snapshot.Manifest | None = newest[0] if newest else None

    async def run(self) -> None:
        while not await self._clock.wait(self._stop, self._interval_s):
            await self.take()

    def stop(self) -> None:
        self._stop.set()

    async def take(self) -> None:
        """One snapshot, if anything happened since the last. A full disk is not the end: the next one may do."""
        if self.newest is not None and self.newest.seq == self._store.meta.seq:
            return
        try:
            self.newest = await asyncio.to_thread(self._write)
            self._metrics.snapshots.inc()
            await self._trim()
        except (OSError, sqlite3.Error, JournalError) as wrong:
            log.warning("no snapshot this time", reason=str(wrong))
            self._metrics.snapshot_failures.inc()
            return
        log.info("snapshot", seq=self.newest.seq, bytes=self.newest.size)

    def _write(self) -> snapshot.Manifest:
        with contextlib.closing(self._store.reader()) as reader:
            reader.execute("PRAGMA query_only = OFF")
            return snapshot.write(reader, self._folder)

    async def _trim(self) -> None:
        snapshot.prune(self._folder, SNAPSHOTS_KEPT)
        kept = snapshot.manifests(self._folder)
        if len(kept) >= SNAPSHOTS_KEPT:
            await self._journal.trim(kept[SNAPSHOTS_KEPT - 1].seq)
