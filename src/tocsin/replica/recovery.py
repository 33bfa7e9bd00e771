"""From whatever is on the disk to a state that belongs to the journal, and can be brought up to date with it.

The state file is used if it is what it was when it was closed (``state.seal``) and belongs to the journal. Otherwise
the newest snapshot that proves whole takes its place: one of this disk, one that a running replica lends, or the
backup that the journal was born to go on from. With none of these an empty state will do if the journal goes back to
its beginning. Then the journal brings the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import structlog

from tocsin.errors import (
    ChainBroken,
    Diverged,
    Gap,
    JournalUnavailable,
    SnapshotDamaged,
    StateDamaged,
    TocsinError,
    WrongIncarnation,
)
from tocsin.journal import codec
from tocsin.journal.contract import Birth, Bounds, Journal, check_end
from tocsin.observe.metrics import Metrics
from tocsin.state import seal, snapshot
from tocsin.state.store import Meta, Store, is_damage, load_meta

log = structlog.get_logger()

Source = Callable[[Birth, Bounds], Awaitable[snapshot.Manifest | None]]
"""Brings a snapshot that the journal can go on from into the folder of snapshots. None: there is none to be had."""


class Recovery:
    """The way back to a state."""

    def __init__(
        self,
        journal: Journal,
        state: Path,
        snapshots: Path,
        metrics: Metrics,
        sources: Sequence[Source] = (),
        *,
        may_go_back: bool = False,
        others_may_come: bool = False,
        cannot_apply: bool = False,
        may_be_foreign: bool = False,
    ) -> None:
        """``may_go_back``: the journal is known to have lost its last entries, so that the state may be ahead of it.
        ``cannot_apply``: one of its entries could not be applied here, so that a state of others is better than one
        that is built from the journal. ``may_be_foreign``: what is on this disk may be of another history."""
        self._journal = journal
        self._state = state
        self._snapshots = snapshots
        self._metrics = metrics
        self._sources = sources
        self._may_go_back = may_go_back or may_be_foreign
        self._others_may_come = others_may_come
        self._cannot_apply = cannot_apply
        self._may_be_foreign = may_be_foreign

    async def store(self) -> Store:
        """An open store. The journal may hold entries that it has yet to apply."""
        check_not_diverged(self._state)
        bounds = await self._journal.bounds()
        birth = self._journal.birth
        if self._may_go_back:
            await self._check_way_back(birth, bounds)
            await asyncio.to_thread(snapshot.remove_after, self._snapshots, bounds.last)
        found = await asyncio.to_thread(self._local, birth, bounds)
        while self._may_be_foreign and found is not None and not await self._is_of_journal(found, bounds):
            await asyncio.to_thread(self._give_up, found)
            found = await asyncio.to_thread(self._local, birth, bounds)
        if found is None and (bounds.first != 1 or self._cannot_apply):
            found = await self._fetched()
        if found is not None:
            return found
        if bounds.first != 1:
            raise self._nothing_to_go_on_from(bounds)
        _set_aside(self._state)
        if bounds.last:
            self._metrics.state_rebuilds.labels("journal").inc()
        return _belonging(Store(self._state), birth, bounds)

    async def _check_way_back(self, birth: Birth, bounds: Bounds) -> None:
        """Raises unless there is something that the journal goes on from. Until then nothing is given up: what is here
        may be the best that is left."""
        if bounds.first == 1 or await asyncio.to_thread(self._stands, birth, bounds):
            return
        for source in self._sources:
            try:
                if await source(birth, bounds) is not None:
                    return
            except TocsinError as wrong:
                log.warning("no snapshot could be fetched", reason=str(wrong))
        raise self._nothing_to_go_on_from(bounds)

    def _stands(self, birth: Birth, bounds: Bounds) -> bool:
        """Does this disk hold something that the journal goes on from?"""
        meta = _meta_of(self._state)
        if meta is not None and birth.fits(meta.incarnation, meta.seq) and _continues(meta.seq, bounds):
            is_end = meta.seq == bounds.last
            if not is_end or meta.position == bounds.end:
                return True
        for manifest in snapshot.manifests(self._snapshots):
            if birth.fits(manifest.incarnation, manifest.seq) and _continues(manifest.seq, bounds):
                with contextlib.suppress(SnapshotDamaged):
                    snapshot.verify(self._snapshots, manifest)
                    return True
        return False

    def _nothing_to_go_on_from(self, bounds: Bounds) -> TocsinError:
        missing = (
            f"the journal begins at {bounds.first}, ends at {bounds.last}, and neither a state nor a whole snapshot is "
            "there that it goes on from"
        )
        if self._others_may_come:
            return JournalUnavailable(missing, hint="it waits for a replica that has one: start them all")
        return StateDamaged(missing, hint=self._way_out())

    def _way_out(self) -> str:
        """The entries between what is here and the journal were held only by those that are lost."""
        if not self._may_go_back:
            return "restore a backup, or start anew in another --data directory"
        return (
            "let a new journal go on from what is here, or from a backup: stop all replicas, 'tocsin restore "
            f"{self._state.parent} --data NEW' (or give a place of backups) for each of them, and start them with NEW, "
            "all without --recover"
        )

    async def _is_of_journal(self, store: Store, bounds: Bounds) -> bool:
        """Is the last entry that this state has applied the one that the journal has in its place?"""
        seq, id = store.meta.position
        if seq in (0, bounds.last):
            return not seq or store.meta.position == bounds.end
        is_kept = seq >= bounds.first
        async for record in self._journal.read(seq - 1 if is_kept else seq):
            return (record.id if is_kept else codec.decode(record.raw, record.seq).prev) == id
        return False

    def _give_up(self, store: Store) -> None:
        """The state of another history is kept aside, for whoever wants to look at it."""
        log.warning("the state here is not that of the others, and is fetched anew", seq=store.meta.seq)
        store.close()
        _set_aside(self._state)
        snapshot.remove_after(self._snapshots, store.meta.seq - 1)

    def _local(self, birth: Birth, bounds: Bounds) -> Store | None:
        """What this disk holds."""
        store = _usable(birth, bounds, self._state, may_go_back=self._may_go_back)
        if store is not None:
            return store
        for path in snapshot.unreadable(self._snapshots):
            log.warning("snapshot passed over", reason=f"the manifest {path} is damaged")
            self._metrics.snapshots_damaged.inc()
        for manifest in snapshot.manifests(self._snapshots):
            if not birth.fits(manifest.incarnation, manifest.seq) or not _continues(manifest.seq, bounds):
                continue
            try:
                snapshot.restore(self._snapshots, manifest, self._state)
            except SnapshotDamaged as damaged:
                log.warning("snapshot passed over", seq=manifest.seq, reason=str(damaged))
                self._metrics.snapshots_damaged.inc()
                continue
            log.info("state restored from a snapshot", seq=manifest.seq)
            self._metrics.state_rebuilds.labels("snapshot").inc()
            return _belonging(Store(self._state), birth, bounds)
        return None

    async def _fetched(self) -> Store | None:
        """What others hold. The journal may move on while it is fetched: then once more."""
        for source in self._sources:
            for _ in range(3):
                bounds = await self._journal.bounds()
                try:
                    manifest = await source(self._journal.birth, bounds)
                except TocsinError as wrong:
                    log.warning("no snapshot could be fetched", reason=str(wrong))
                    break
                if manifest is None:
                    break
                bounds = await self._journal.bounds()
                found = await asyncio.to_thread(self._local, self._journal.birth, bounds)
                if found is not None:
                    return found
        return None


def mark_damaged(state: Path, error: BaseException | None) -> None:
    """If the file was found damaged while it was in use, the next start is to rebuild it. One that differs from the
    others' is kept for whoever wants to find out why."""
    if is_damage(error) or isinstance(error, SnapshotDamaged):
        _mark(state).touch()
    if isinstance(error, Diverged):
        diverged_mark(state).write_text(error.message)


def check_not_diverged(state: Path) -> None:
    mark = diverged_mark(state)
    if mark.exists():
        reason = mark.read_text(errors="replace")
        raise Diverged(
            "".join(c if c.isprintable() else "?" for c in reason) or "this replica's state has diverged",
            hint=remedy_of_divergence(state),
        )


def diverged_mark(state: Path) -> Path:
    return state.with_name(state.name + ".has-diverged")


def remedy_of_divergence(state: Path) -> str:
    return (
        f"keep a copy of {state.parent} to find out why, then remove {state.name}* and the folder snapshots there: "
        "at the next start it is fetched anew"
    )


def _mark(state: Path) -> Path:
    return state.with_name(state.name + ".is-damaged")


def _usable(birth: Birth, bounds: Bounds, state: Path, *, may_go_back: bool) -> Store | None:
    if not state.exists():
        return None
    if _mark(state).exists():
        log.warning("the state file was found damaged and is rebuilt")
        _set_aside(state)
        return None
    try:
        store = _checked(state)
    except StateDamaged as damaged:
        log.warning("the state file is rebuilt", reason=str(damaged))
        _set_aside(state)
        return None
    if may_go_back and store.meta.seq >= bounds.last and store.meta.position != bounds.end:
        log.warning("the state is ahead of what is left of the journal and goes back", ends=bounds.last)
        store.close()
        _set_aside(state)
        return None
    try:
        return _belonging(store, birth, bounds)
    except Gap:
        log.warning("the state file is too old for the journal and is rebuilt", seq=store.meta.seq)
        store.close()
        return None


def _meta_of(state: Path) -> Meta | None:
    """None: there is none, or it is of no use."""
    if not state.exists() or _mark(state).exists():
        return None
    try:
        with contextlib.closing(sqlite3.connect(state)) as db:
            return load_meta(db)
    except (sqlite3.Error, msgspec.MsgspecError):
        return None


def _checked(state: Path) -> Store:
    """Open, if it is what it was when it was closed. Raises ``StateDamaged``."""
    is_sealed = seal.check(state)
    store = Store(state)
    try:
        if not is_sealed and not seal.look_over(store):
            log.info("the state file is too large to be looked over", bytes=state.stat().st_size)
    except BaseException:
        store.close()
        raise
    return store


def _belonging(store: Store, birth: Birth, bounds: Bounds) -> Store:
    """A state of another journal, or of a later point than the journal has, must never be used."""
    meta = store.meta
    if not meta.incarnation or (
        meta.incarnation != birth.incarnation and birth.fits(meta.incarnation, meta.seq)
    ):
        store.adopt(birth.incarnation, birth.start)
    if meta.incarnation != birth.incarnation:
        store.close()
        raise WrongIncarnation(
            f"the state belongs to journal {meta.incarnation}, this one is {birth.incarnation}",
            hint="they were mixed up: put the right journal back, or start anew in another --data directory",
        )
    if meta.seq >= bounds.last:
        try:
            check_end(bounds.end, *meta.position)
        except ChainBroken:
            store.close()
            raise
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
    seal.seal_of(state).unlink(missing_ok=True)
    _mark(state).unlink(missing_ok=True)
