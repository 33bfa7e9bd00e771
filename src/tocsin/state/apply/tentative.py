"""The leader's own entry: executed before it is appended, committed after it is acknowledged.

What cannot be applied therefore never becomes durable. A command that fails is refused. A decision that fails is taken
apart into rows: those that can be applied go on, and the schedule of one that cannot is looked at again later, so that
it holds nobody up.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from tocsin.errors import Refused
from tocsin.model import change as c
from tocsin.model.entry import Entry
from tocsin.state.apply.context import Context
from tocsin.state.apply.dispatch import copy_of, execute, finish, handle
from tocsin.state.store import Meta, Store, is_damage

LOOK_AGAIN_MS = 60_000
_NOT_THE_CHANGE = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_INTERRUPT,
    }
)
"""What SQLite says when it is the disk or the machine that fails, whatever the change is."""


class Dropped(NamedTuple):
    """A part of a change that could not be applied, and why."""

    change: c.Change
    error: Exception


class TentativeEntry:
    """An entry that was executed in a transaction that is still open."""

    def __init__(
        self, store: Store, meta: Meta, entry: Entry, results: list[object], dropped: Sequence[Dropped]
    ) -> None:
        self._store = store
        self._meta = meta
        self.seq = meta.seq
        self.entry = entry
        self.raw = b""
        self.entry_results = results
        """One for each change of the entry."""
        self.results = results
        """One for each change that was given, also where less of it went into the entry. ``LaunchesStarted`` has a list
        with None for each row that was dropped."""
        self.dropped = dropped

    def commit(self) -> None:
        """The entry is in the journal."""
        self._store.db.execute("COMMIT")
        self._store.meta = self._meta

    @property
    def is_open(self) -> bool:
        """False: SQLite has rolled it back by itself, as it may where the disk is full."""
        return self._store.db.in_transaction

    def roll_back(self) -> None:
        """The entry is not in the journal, or it is not known whether it is."""
        if self.is_open:
            self._store.db.execute("ROLLBACK")


def begin(store: Store, entry: Entry, encode: Callable[[Entry], bytes]) -> TentativeEntry:
    """Execute the entry behind the last one. Its changes may become fewer. The transaction stays open."""
    db = store.db
    db.execute("BEGIN IMMEDIATE")
    try:
        try:
            meta = copy_of(store.meta)
            tentative = TentativeEntry(store, meta, entry, execute(db, meta, entry), ())
        except Exception as wrong:
            if is_environment(wrong):
                raise
            db.execute("ROLLBACK")
            db.execute("BEGIN IMMEDIATE")
            tentative = _without_what_fails(store, entry)
        tentative.raw = encode(tentative.entry)
        meta = tentative._meta
        finish(db, meta, meta.seq + 1, tentative.entry, tentative.raw, tentative.entry_results)
        tentative.seq = meta.seq
        return tentative
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def is_environment(wrong: Exception) -> bool:
    """Is it the disk or the file that fails, and not this very change?"""
    if is_damage(wrong) or isinstance(wrong, MemoryError | OSError):
        return True
    code = getattr(wrong, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _NOT_THE_CHANGE


def _without_what_fails(store: Store, entry: Entry) -> TentativeEntry:
    pruning = _Pruning(store.db, copy_of(store.meta), entry)
    results = [pruning.apply(change) for change in entry.changes]
    kept = msgspec.structs.replace(entry, changes=pruning.kept)
    tentative = TentativeEntry(store, pruning.meta, kept, pruning.kept_results, pruning.dropped)
    tentative.results = results
    return tentative


class _Pruning:
    """Executes change by change, each in a savepoint of its own."""

    def __init__(self, db: sqlite3.Connection, meta: Meta, entry: Entry) -> None:
        self._db = db
        self._entry = entry
        self.meta = meta
        self.kept: list[c.Change] = []
        self.kept_results: list[object] = []
        self.dropped: list[Dropped] = []

    def apply(self, change: c.Change) -> object:
        result, wrong = self._attempt(change)
        if wrong is None:
            return result
        count = _rows(change)
        if count is None:
            self.dropped.append(Dropped(change, wrong))
            return Refused(
                f"it could not be carried out and nothing of it was written: {type(wrong).__name__}: {wrong}",
                hint="this is a defect of the service: its log has the details",
            )
        if count <= 1:
            return self._give_up(change, wrong)
        half = count // 2
        parts: list[Any] = [self.apply(_part(change, 0, half)), self.apply(_part(change, half, count))]
        return [*parts[0], *parts[1]] if isinstance(change, c.LaunchesStarted) else None

    def _attempt(self, change: c.Change) -> tuple[object, Exception | None]:
        db, meta = self._db, copy_of(self.meta)
        db.execute("SAVEPOINT change")
        try:
            result = handle(Context(db, meta, self._entry), change)
        except Exception as wrong:
            if is_environment(wrong):
                raise
            db.execute("ROLLBACK TO change")
            db.execute("RELEASE change")
            return None, wrong
        db.execute("RELEASE change")
        self.meta = meta
        self.kept.append(change)
        self.kept_results.append(result)
        return result, None

    def _give_up(self, change: c.Change, wrong: Exception) -> object:
        """One row that cannot be applied: its schedule is looked at again in a while."""
        self.dropped.append(Dropped(change, wrong))
        if isinstance(change, c.LaunchesStarted | c.LaunchesQueued | c.LaunchesSkipped):
            delay_ms = self._entry.time_ms + LOOK_AGAIN_MS - change.instants_s[0] * 1000
            self._attempt(c.DueMoved(change.sids, list(change.instants_s), [delay_ms]))
        return [None] if isinstance(change, c.LaunchesStarted) else None


def _rows(change: c.Change) -> int | None:
    """How many rows a decision has; None: it is a command, or not made of rows."""
    if not isinstance(change, _COLUMNS):
        return None
    return len(getattr(change, change.__struct_fields__[0]))


def _part(change: Any, start: int, end: int) -> Any:
    columns = msgspec.structs.astuple(change)
    return type(change)(*(None if column is None else column[start:end] for column in columns))


_COLUMNS = (
    c.LaunchesStarted,
    c.LaunchesQueued,
    c.LaunchesSkipped,
    c.OccurrencesMissed,
    c.DueMoved,
    c.AttemptsStarted,
    c.CancelsOrdered,
    c.LaunchesAccepted,
    c.LaunchesSucceeded,
    c.LaunchesEnded,
    c.AttemptsFailed,
    c.HandOversWithdrawn,
)
