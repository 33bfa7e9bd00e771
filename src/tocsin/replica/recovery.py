"""From whatever is on the disk to a state that is up to date with the journal.

The state file is used if it can be read and belongs to the journal. Otherwise the newest snapshot that proves whole
takes its place, or an empty state if the journal goes back to its beginning. Then the journal brings the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import structlog

from tocsin.errors import Gap, SnapshotDamaged, StateDamaged, WrongIncarnation
from tocsin.journal import codec
from tocsin.journal.contract import Bounds, Journal
from tocsin.observe.metrics import Metrics
from tocsin.state import snapshot
from tocsin.state.apply import apply
from tocsin.state.store import Store, save_meta

log = structlog.get_logger()


async def recover(journal: Journal, state: Path, snapshots: Path, metrics: Metrics) -> Store:
    """An open store that has applied everything the journal holds."""
    bounds = await journal.bounds()
    store = await asyncio.to_thread(open_store, journal.birth.incarnation, bounds, state, snapshots, metrics)
    await replay(journal, store, bounds.last)
    return store


def open_store(incarnation: str, bounds: Bounds, state: Path, snapshots: Path, metrics: Metrics) -> Store:
    """The state file, or what can be had in its place."""
    store = _usable(incarnation, bounds, state)
    if store is not None:
        return store
    for manifest in snapshot.manifests(snapshots):
        if manifest.incarnation != incarnation or not _continues(manifest.seq, bounds):
            continue
        try:
            snapshot.restore(snapshots, manifest, state)
        except SnapshotDamaged as damaged:
            log.warning("snapshot passed over", seq=manifest.seq, reason=str(damaged))
            metrics.snapshots_damaged.inc()
            continue
        log.info("state restored from a snapshot", seq=manifest.seq)
        metrics.state_rebuilds.labels("snapshot").inc()
        return _belonging(Store(state), incarnation, bounds)
    if bounds.first != 1:
        raise StateDamaged(
            f"the journal begins at {bounds.first} and there is neither a state nor a whole snapshot before it",
            hint="restore a snapshot, or start anew in another --data directory",
        )
    _set_aside(state)
    if bounds.last:
        metrics.state_rebuilds.labels("journal").inc()
    return _belonging(Store(state), incarnation, bounds)


async def replay(journal: Journal, store: Store, last: int) -> None:
    """Apply what the state does not have yet."""
    if store.meta.seq >= last:
        return
    log.info("replaying the journal", after=store.meta.seq, upto=last)
    records = journal.read(store.meta.seq)
    async with contextlib.aclosing(records):  # type: ignore[type-var]  # why: engines write it as a generator
        async for record in records:
            entry = codec.decode(record.raw, record.seq)
            await asyncio.to_thread(apply, store, record.seq, entry, record.raw)
            if record.seq >= last:
                return


def mark_damaged(state: Path, error: BaseException | None) -> None:
    """If the file was found damaged while it was in use, the next start is to rebuild it."""
    is_corrupt = getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    )
    if is_corrupt or isinstance(error, SnapshotDamaged):
        _mark(state).touch()


def _mark(state: Path) -> Path:
    return state.with_name(state.name + ".is-damaged")


def _usable(incarnation: str, bounds: Bounds, state: Path) -> Store | None:
    if not state.exists():
        return None
    if _mark(state).exists():
        log.warning("the state file was found damaged and is rebuilt")
        _set_aside(state)
        return None
    try:
        store = Store(state)
    except StateDamaged as damaged:
        log.warning("the state file is rebuilt", reason=str(damaged))
        return None
    try:
        return _belonging(store, incarnation, bounds)
    except Gap:
        log.warning("the state file is too old for the journal and is rebuilt", seq=store.meta.seq)
        store.close()
        return None


def _belonging(store: Store, incarnation: str, bounds: Bounds) -> Store:
    """A state of another journal, or of a later point than the journal has, must never be used."""
    meta = store.meta
    if not meta.incarnation:
        meta.incarnation = incarnation
        store.transact(lambda db: save_meta(db, meta))
    if meta.incarnation != incarnation:
        store.close()
        raise WrongIncarnation(
            f"the state belongs to journal {meta.incarnation}, this one is {incarnation}",
            hint="they were mixed up: put the right journal back, or start anew in another --data directory",
        )
    if meta.seq > bounds.last:
        store.close()
        raise WrongIncarnation(
            f"the state has applied entry {meta.seq}, the journal ends at {bounds.last}",
            hint="the journal lost entries (was an old copy put back?): restore the newest one",
        )
    if not _continues(meta.seq, bounds):
        raise Gap(f"the state is at {meta.seq}, the journal begins at {bounds.first}")
    return store


def _continues(seq: int, bounds: Bounds) -> bool:
    return bounds.first - 1 <= seq <= bounds.last


def _set_aside(state: Path) -> None:
    """A damaged file is kept beside the new one for whoever wants to look at it."""
    for suffix in ("", "-wal", "-shm"):
        path = state.with_name(state.name + suffix)
        if path.exists():
            path.replace(path.with_name(path.name + ".damaged"))
    _mark(state).unlink(missing_ok=True)
