"""Entries go into the state, one at a time and in order, whoever wrote them.

All of it runs on the one thread that may write the state. A replica remembers the running digest after its newest
entries, so that it can be compared with others', and a checkpoint is looked at in the very moment at which it is
applied.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from tocsin.errors import CannotApply, StateDamaged, TocsinError
from tocsin.journal import codec
from tocsin.journal.contract import Record
from tocsin.model import change as c
from tocsin.model.entry import Entry, Position
from tocsin.replica.notices import Applied
from tocsin.state.apply import apply, tentative
from tocsin.state.apply.tentative import Dropped, TentativeEntry
from tocsin.state.store import Store, is_damage

log = structlog.get_logger()
OnApplied = Callable[[int, Store], None]
OnDropped = Callable[[Sequence[Dropped]], None]
DIGESTS_KEPT = 64
_REMEDY = (
    "the state has diverged, or another version wrote the entry, or it is damaged. If another replica has applied it, "
    "move state.db* and the folder snapshots of this data directory away: the state is fetched from that replica. If "
    "no replica can apply it and it is the last one, stop all of them and run 'tocsin journal skip {seq}' on each. See "
    "docs/damage.md"
)
DIGEST_EVERY = 32
"""Not after every entry: a digest covers all that came before."""


class Landed(NamedTuple):
    """An entry that is in the journal."""

    seq: int
    id: bytes
    entry: Entry
    raw: bytes


class Applier:
    """The only one that changes the state."""

    def __init__(
        self,
        store: Store,
        on_checkpoint: Callable[[sqlite3.Connection], None],
        on_applied: OnApplied | None = None,
        on_dropped: OnDropped | None = None,
    ) -> None:
        self._store = store
        self._on_checkpoint = on_checkpoint
        self._on_applied = on_applied
        self._on_dropped = on_dropped
        self.applied = Applied(store.meta.seq)
        self.digests: OrderedDict[int, str] = OrderedDict()
        self.rows_changed = self.bytes_applied = 0
        """Since the start."""

    def landed(self, record: Record) -> Landed:
        try:
            entry = codec.decode(record.raw, record.seq)
        except StateDamaged as damaged:
            raise _cannot_apply(record.seq, record.id, str(damaged)) from damaged
        return Landed(record.seq, record.id, entry, record.raw)

    def apply(self, landed: Landed) -> list[object]:
        """One result a change."""
        try:
            results = apply(self._store, landed.seq, landed.entry, landed.raw)
        except Exception as wrong:
            if isinstance(wrong, TocsinError) or tentative.is_environment(wrong):
                raise
            reason = f"journal entry {landed.seq} cannot be applied: {type(wrong).__name__}: {wrong}"
            raise _cannot_apply(landed.seq, landed.id, reason) from wrong
        self._note(landed.seq, landed.entry, len(landed.raw))
        return results

    @property
    def position(self) -> Position:
        """The last entry that was applied."""
        return self._store.meta.position

    def begin(self, entry: Entry) -> TentativeEntry:
        """Execute an entry of our own that is not in the journal yet."""
        executed = tentative.begin(self._store, entry, codec.encode)
        if executed.dropped and self._on_dropped is not None:
            self._on_dropped(executed.dropped)
        return executed

    def roll_back(self) -> None:
        """Whatever was executed and is not committed."""
        if self._store.db.in_transaction:
            self._store.db.execute("ROLLBACK")

    def commit(self, executed: TentativeEntry) -> None:
        """It is in the journal now."""
        if executed.is_open:
            executed.commit()
        elif executed.seq > self._store.meta.seq:
            # A full disk may have ended the transaction: the entry is applied as any other.
            apply(self._store, executed.seq, executed.entry, executed.raw)
        self._note(executed.seq, executed.entry, len(executed.raw))

    def _note(self, seq: int, entry: Entry, size: int) -> None:
        self.rows_changed = self._store.db.total_changes
        self.bytes_applied += size
        if self._on_applied is not None:
            self._on_applied(seq, self._store)
        if seq % DIGEST_EVERY == 0:
            self.digests[seq] = self._store.meta.digest.hex()
            while len(self.digests) > DIGESTS_KEPT:
                self.digests.popitem(last=False)
        if any(isinstance(change, c.Checkpoint) for change in entry.changes):
            self._pin_checkpoint(seq)

    def _pin_checkpoint(self, seq: int) -> None:
        """The entry is committed: what is wrong with a reader, such as that no descriptor is left, is no reason to
        apply it again."""
        try:
            pinned = _pinned(self._store)
        except sqlite3.Error as wrong:
            if is_damage(wrong):
                raise
            log.warning("no snapshot this time", seq=seq, reason=str(wrong))
        else:
            self._on_checkpoint(pinned)

    def apply_all(self, entries: Sequence[Landed]) -> int:
        """Those that the state does not have yet. Returns how many these were."""
        fresh = [landed for landed in entries if landed.seq > self._store.meta.seq]
        for landed in fresh:
            self.apply(landed)
        return len(fresh)


def _cannot_apply(seq: int, id: bytes, reason: str) -> CannotApply:
    return CannotApply(reason, hint=_REMEDY.format(seq=seq), seq=seq, id=id)


def _pinned(store: Store) -> sqlite3.Connection:
    """A reader that goes on seeing the state as it is now."""
    reader = store.reader()
    try:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM meta").fetchone()
    except BaseException:
        reader.close()
        raise
    return reader
