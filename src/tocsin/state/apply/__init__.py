"""Entries go in. One file a family of changes; ``dispatch`` is the table of contents.

Deterministic: the same entries give the same state on every replica, because nothing here asks a clock, a random
source or the environment. A change of an unknown kind stops the replica loudly. One entry is one transaction
together with its sequence number. The leader executes its own entries before it appends them (``tentative``).
"""

from __future__ import annotations

import sqlite3

from tocsin.errors import Gap
from tocsin.model.entry import Entry, Position, chain_broken
from tocsin.state.apply.dispatch import copy_of, execute, finish
from tocsin.state.store import Store


def apply(store: Store, seq: int, entry: Entry, raw: bytes) -> list[object]:
    """Apply one entry that is in the journal. Returns one result a change: what it brought about, or a ``Refused``
    error."""
    _check_order(store, seq)
    if entry.prev != store.meta.last_id:
        raise chain_broken(store.meta.position, Position(seq - 1, entry.prev))
    meta = copy_of(store.meta)
    results: list[object] = []

    def work(db: sqlite3.Connection) -> None:
        results.extend(execute(db, meta, entry))
        finish(db, meta, seq, entry, raw, results)

    store.transact(work)
    store.meta = meta
    return results


def _check_order(store: Store, seq: int) -> None:
    if seq != store.meta.seq + 1:
        raise Gap(f"entry {seq} does not follow {store.meta.seq}, which is the last one applied")
