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

from tocsin.model import change as c
from tocsin.model.entry import Entry
from tocsin.replica.notices import Applied
from tocsin.state.apply import apply
from tocsin.state.store import Store

OnApplied = Callable[[int, Store], None]
DIGESTS_KEPT = 64
DIGEST_EVERY = 32
"""Not after every entry: a digest covers all that came before."""


class Landed(NamedTuple):
    """An entry that is in the journal."""

    seq: int
    entry: Entry
    raw: bytes


class Applier:
    """The only one that changes the state."""

    def __init__(
        self,
        store: Store,
        on_checkpoint: Callable[[sqlite3.Connection], None],
        on_applied: OnApplied | None = None,
    ) -> None:
        self._store = store
        self._on_checkpoint = on_checkpoint
        self._on_applied = on_applied
        self.applied = Applied(store.meta.seq)
        self.digests: OrderedDict[int, str] = OrderedDict()

    def apply(self, landed: Landed) -> list[object]:
        """One result a change."""
        results = apply(self._store, landed.seq, landed.entry, landed.raw)
        if self._on_applied is not None:
            self._on_applied(landed.seq, self._store)
        if landed.seq % DIGEST_EVERY == 0:
            self.digests[landed.seq] = self._store.meta.digest.hex()
            while len(self.digests) > DIGESTS_KEPT:
                self.digests.popitem(last=False)
        if any(isinstance(change, c.Checkpoint) for change in landed.entry.changes):
            self._on_checkpoint(_pinned(self._store))
        return results

    def apply_all(self, entries: Sequence[Landed]) -> int:
        """Those that the state does not have yet. Returns how many these were."""
        fresh = [landed for landed in entries if landed.seq > self._store.meta.seq]
        for landed in fresh:
            self.apply(landed)
        return len(fresh)


def _pinned(store: Store) -> sqlite3.Connection:
    """A reader that goes on seeing the state as it is now."""
    reader = store.reader()
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM meta").fetchone()
    return reader
