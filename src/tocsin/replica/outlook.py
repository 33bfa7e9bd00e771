"""Which of the rows that are due are taken up now: those whose lane has room, the earliest first.

A row whose lane is full stays due, and the look goes on behind it, a bounded number of rows and bytes a turn. What was
passed over is many rows when a receiver hangs, so the look goes round: each turn sees the head of the line, and beyond
it the stretch behind the one that the last turn saw. Attempts that are due again are looked at in the same way, and
come first. Queued launches have a reader of their own (``queued_reader``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Set
from typing import Any, Generic, NamedTuple, TypeVar

from tocsin.decide.due import Decision, DueRow
from tocsin.decide.waiting import RetryRow
from tocsin.model import change as c
from tocsin.replica.lanes import Room
from tocsin.replica.queued_reader import QueuedReader
from tocsin.state import queries

HEAD = 500
AHEAD = 2_000
"""While some lane is full: rows looked at from the beginning, and rows looked at further on."""
HEAD_BYTES = queries.LOOK_BYTES // 4


class Retry(NamedTuple):
    """What ``state.queries.retries_due`` gives for one launch."""

    at_ms: int
    lid: int
    attempt: int
    spec: bytes


RowT = TypeVar("RowT", DueRow, Retry)


class DueReader(Generic[RowT]):
    """Reads one table of what is due, from turn to turn. The first two columns of a row are its place."""

    def __init__(self, page: Callable[..., queries.Page], row: Callable[[Iterable[Any]], RowT]) -> None:
        self._page = page
        self._row: Callable[[Iterable[Any]], RowT] = row
        self._behind: tuple[int, int] | None = None
        """The last row that was looked at; None: nothing is passed over."""
        self.seen_ms: int | None = None
        """All that was due by then was looked at, and there was no room for any of it."""

    def rows(self, db: sqlite3.Connection, now_ms: int, limit: int, room: Room) -> list[RowT]:
        """Rows for which there is room."""
        crowded = self._behind is not None
        head_limit = min(limit, HEAD) if crowded else limit
        head, is_last, last = self._read(
            db, now_ms, head_limit, (0, 0), HEAD_BYTES if crowded else queries.LOOK_BYTES
        )
        is_easy = room.takes_all([row.spec for row in head])
        taken = head if is_easy else [row for row in head if room.takes(row.spec)]
        self.seen_ms = None
        if is_last:
            self._behind = (0, 0) if len(taken) < len(head) else None
            # What was taken may be due again at once, if it is late: then there is one more look.
            self.seen_ms = now_ms if self._behind and not taken else None
        elif crowded or len(taken) < len(head):
            self._look_on(db, now_ms, limit, room, taken, last)
        return taken

    def _look_on(
        self,
        db: sqlite3.Connection,
        now_ms: int,
        limit: int,
        room: Room,
        taken: list[RowT],
        head_end: tuple[int, int],
    ) -> None:
        start = max(head_end, self._behind or head_end)
        found, is_last, _ = self._read(db, now_ms, AHEAD, start, queries.LOOK_BYTES - HEAD_BYTES)
        last = start
        for row in found:
            if len(taken) >= limit:
                self._behind = last
                return
            last = row[0], row[1]
            if room.takes(row.spec):
                taken.append(row)
        if is_last:  # once round: the next look begins behind the head again
            self._behind = (0, 0)
            self.seen_ms = None if taken else now_ms
        else:
            self._behind = last

    def _read(
        self, db: sqlite3.Connection, now_ms: int, limit: int, after: tuple[int, int], bytes_max: int
    ) -> tuple[list[RowT], bool, tuple[int, int]]:
        """Rows, whether there are no more, and the place of the last one."""
        page = self._page(db, now_ms, limit, after, bytes_max)
        return list(map(self._row, page.rows)), page.is_last, page.rows[-1][:2] if page.rows else after


class Outlook:
    """What was passed over, from turn to turn."""

    def __init__(self) -> None:
        self._due: DueReader[DueRow] = DueReader(queries.due, DueRow._make)
        self._retries: DueReader[Retry] = DueReader(queries.retries_due, Retry._make)
        self._queued = QueuedReader()

    def retries(self, db: sqlite3.Connection, now_ms: int, limit: int, room: Room) -> list[RetryRow]:
        """Launches whose next attempt is due, for which there is room."""
        return [RetryRow(row.lid, row.attempt) for row in self._retries.rows(db, now_ms, limit, room)]

    def queued(
        self, db: sqlite3.Connection, now_ms: int, limit: int, room: Room
    ) -> tuple[c.AttemptsStarted, c.LaunchesEnded]:
        """Queued launches: those that start, and those that are skipped."""
        return self._queued.look(db, now_ms, limit, room)

    def ended(self, lids: Iterable[int]) -> None:
        """These launches have ended, and that was written down."""
        self._queued.ended(lids)

    def decided(self, decision: Decision, now_ms: int) -> None:
        """What became of the rows. Here nothing is remembered of them."""

    @property
    def without_room(self) -> Set[int]:
        """Schedules whose rows were given although there is no room, because their time is over: to be skipped."""
        return frozenset()

    def waited_for(self, sid: int) -> str:
        """The limit because of which a row is given only now that its time is over; empty: none."""
        return ""

    def forget(self) -> None:
        """What was decided could not be written down: those rows are due as before. A look at them finds that out."""

    def rows(self, db: sqlite3.Connection, now_ms: int, limit: int, room: Room) -> list[DueRow]:
        """Due rows for which there is room."""
        return self._due.rows(db, now_ms, limit, room)

    def next_wake_ms(self, db: sqlite3.Connection) -> int | None:
        """The earliest moment at which something is to be looked at. What waits for room is none: whoever makes
        room wakes the loop."""
        due_ms, retries_ms = self._due.seen_ms, self._retries.seen_ms
        next_due_ms = queries.next_wake_ms(
            db, 0 if due_ms is None else due_ms, -1 if retries_ms is None else retries_ms
        )
        return earliest(next_due_ms, self._queued.next_ms)


def earliest(*moments: int | None) -> int | None:
    return min((moment for moment in moments if moment is not None), default=None)
