"""Snapshots: at every checkpoint that the journal holds, so that all replicas have snapshots of the same entries.

Two snapshots are kept: if the newer turns out damaged, the older one and the journal still add up to everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import structlog

from tocsin.clock import Clock
from tocsin.errors import NotFound
from tocsin.journal.contract import Birth
from tocsin.model.cluster import SnapshotMark
from tocsin.observe.metrics import Metrics
from tocsin.replica.digesting import Digests
from tocsin.state import snapshot

log = structlog.get_logger()
SNAPSHOTS_KEPT = 2
LENT_S = 60.0
"""So long after the last piece was sent whoever fetches a snapshot may come back for the rest."""


class Snapshotter:
    """Runs beside the loop and only ever reads the state."""

    def __init__(
        self,
        folder: Path,
        birth: Birth,
        clock: Clock,
        metrics: Metrics,
        on_snapshot: Callable[[snapshot.Manifest], None],
        digests: Digests,
    ) -> None:
        self._folder = folder
        self._birth = birth
        self._clock = clock
        self._metrics = metrics
        self._on_snapshot = on_snapshot
        self._wanted = asyncio.Event()
        self._stopping = False
        self._lock = threading.Lock()
        self._pinned: sqlite3.Connection | None = None
        self._loop = asyncio.get_running_loop()
        self._digests = digests
        self._lent: dict[int, float] = {}
        self.held = self._own()[0]
        """The newest first."""
        self.taken = asyncio.Event()
        """Set whenever one more was made, or could not be made."""
        self.lasted_s = 0.0
        """How long the last one took, its digest included."""
        self.failure = ""
        """Why the last one could not be made; empty: it was."""
        age_s = 0.0 if self.newest is None else (clock.wall_ms() - self.newest.time_ms) / 1000
        self.checkpoint_s = clock.elapsed_s() - max(0.0, age_s)
        """When the last checkpoint was seen, whoever wrote it."""

    @property
    def newest(self) -> snapshot.Manifest | None:
        return self.held[0] if self.held else None

    def marks(self) -> list[SnapshotMark]:
        return [SnapshotMark(m.seq, m.digest, m.time_ms) for m in self.held]

    def pin(self, reader: sqlite3.Connection) -> None:
        """The state as this reader sees it is to be a snapshot. Called on the state's thread."""
        with self._lock:
            superseded, self._pinned = self._pinned, reader
        self.checkpoint_s = self._clock.elapsed_s()
        if superseded is not None:
            superseded.close()
        self._loop.call_soon_threadsafe(self._wanted.set)

    async def run(self) -> None:
        while not self._stopping:
            await self._wanted.wait()
            self._wanted.clear()
            with self._lock:
                reader, self._pinned = self._pinned, None
            if reader is not None and self._stopping:
                reader.close()
            elif reader is not None:
                await self._take(reader)

    def stop(self) -> None:
        self._stopping = True
        self._digests.stop()
        self._wanted.set()

    def close(self) -> None:
        """When nothing is applied any more: a checkpoint of the very last entries came too late for ``run``."""
        with self._lock:
            reader, self._pinned = self._pinned, None
        if reader is not None:
            reader.close()

    async def _take(self, reader: sqlite3.Connection) -> None:
        """One snapshot. A full disk is not the end: the next one may do."""
        began_s = self._clock.elapsed_s()
        try:
            made = await asyncio.to_thread(self._write, reader)
            path = snapshot.data_of(self._folder, made.seq)
            made = msgspec.structs.replace(made, digest=await self._digests.of(path))
            await asyncio.to_thread(snapshot.write_manifest, self._folder, made)
            self.held = await asyncio.to_thread(self._pruned, self._lent_now())
        except snapshot.BrokenOff:
            return
        except (OSError, sqlite3.Error) as wrong:
            log.warning("no snapshot this time", reason=str(wrong))
            self._metrics.snapshot_failures.inc()
            self._noted(str(wrong))
            return
        self.lasted_s = self._clock.elapsed_s() - began_s
        self._metrics.snapshots.inc()
        log.info("snapshot", seq=made.seq, bytes=made.size)
        self._on_snapshot(made)
        self._noted()

    def _pruned(self, lent: set[int]) -> list[snapshot.Manifest]:
        """What is left of this journal's. Another one's are not ours to remove."""
        own, others = self._own()
        kept = {manifest.seq for manifest in [*own[:SNAPSHOTS_KEPT], *others]}
        snapshot.prune(self._folder, 0, kept | lent)
        return self._own()[0]

    def _own(self) -> tuple[list[snapshot.Manifest], list[snapshot.Manifest]]:
        """Snapshots of this journal, or of the state that it was born to go on from; and all others, which a folder may
        hold that was used before."""
        found: tuple[list[snapshot.Manifest], list[snapshot.Manifest]] = ([], [])
        for manifest in snapshot.manifests(self._folder):
            found[not self._birth.fits(manifest.incarnation, manifest.seq)].append(manifest)
        return found

    def _noted(self, failure: str = "") -> None:
        self.failure = failure
        woken, self.taken = self.taken, asyncio.Event()
        woken.set()

    def _write(self, reader: sqlite3.Connection) -> snapshot.Manifest:
        with contextlib.closing(reader):
            reader.execute("PRAGMA query_only = OFF")
            return snapshot.write(reader, self._folder, lambda: self._stopping)

    # For those who fetch one

    @contextlib.contextmanager
    def lend(self, seq: int) -> Iterator[tuple[snapshot.Manifest, Path]]:
        """A snapshot that is not pruned while somebody fetches it."""
        found = next((manifest for manifest in self.held if manifest.seq == seq), None)
        if found is None:
            raise NotFound(f"there is no snapshot of entry {seq} here")
        self._lent[seq] = self._clock.elapsed_s() + 24 * 3600
        try:
            yield found, snapshot.data_of(self._folder, seq)
        finally:
            self._lent[seq] = self._clock.elapsed_s() + LENT_S

    def lent_seq(self) -> int | None:
        """The oldest that somebody is fetching: the journal behind it is still needed."""
        return min(self._lent_now(), default=None)

    def _lent_now(self) -> set[int]:
        now_s = self._clock.elapsed_s()
        self._lent = {seq: until_s for seq, until_s in self._lent.items() if until_s > now_s}
        return set(self._lent)
