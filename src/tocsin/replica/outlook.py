"""Which of the due rows are taken up now: those whose lane has room, the earliest first.

A row whose lane is full stays due, and the look goes on behind it, a bounded number of rows a turn. What was passed
over is many rows when a receiver hangs, so the look goes round: each turn sees the head of the line, and beyond it the
stretch behind the one that the last turn saw.
"""

from __future__ import annotations

import sqlite3

from tocsin.decide.due import Decision, DueRow
from tocsin.decide.waiting import RetryRow
from tocsin.replica.lanes import Room
from tocsin.state import queries

HEAD = 500
AHEAD = 2_000
"""While some lane is full: rows looked at from the beginning, and rows looked at further on."""


class Outlook:
    """What was passed over, from turn to turn."""

    def __init__(self) -> None:
        self._behind: tuple[int, int] | None = None
        """The last row that was looked at; None: nothing is passed over."""
        self._seen_ms: int | None = None
        """All that was due by then was looked at, and there was no room for any of it."""

    def retries(self, db: sqlite3.Connection, now_ms: int, limit: int, room: Room) -> list[RetryRow]:
        """Launches whose next attempt is due: those wait for no lane."""
        return [RetryRow(*row) for row in queries.retries_due(db, now_ms, limit)]

    def decided(self, decision: Decision, now_ms: int) -> None:
        """What became of the rows. Here nothing is remembered of them."""

    def waited_for(self, sid: int) -> str:
        """The limit because of which a row is given only now that its time is over; empty: none."""
        return ""

    def forget(self) -> None:
        """What was decided could not be written down: those rows are due as before. A look at them finds that out."""

    def rows(self, db: sqlite3.Connection, now_ms: int, limit: int, room: Room) -> list[DueRow]:
        """Due rows for which there is room."""
        crowded = self._behind is not None
        head_limit = min(limit, HEAD) if crowded else limit
        head = _due(db, now_ms, head_limit)
        is_easy = room.takes_all([row.spec for row in head])
        taken = head if is_easy else [row for row in head if room.takes(row.spec)]
        self._seen_ms = None
        if len(head) < head_limit:
            self._behind = (0, 0) if len(taken) < len(head) else None
            # What was taken may be due again at once, if it is late: then there is one more look.
            self._seen_ms = now_ms if self._behind and not taken else None
        elif crowded or len(taken) < len(head):
            self._look_on(db, now_ms, room, taken, head[-1])
        return taken

    def _look_on(
        self, db: sqlite3.Connection, now_ms: int, room: Room, taken: list[DueRow], last: DueRow
    ) -> None:
        head_end = (last.at_ms, last.sid)
        start = max(head_end, self._behind or head_end)
        found = _due(db, now_ms, AHEAD, start)
        taken += [row for row in found if room.takes(row.spec)]
        if len(found) == AHEAD:
            self._behind = (found[-1].at_ms, found[-1].sid)
        else:  # once round: the next look begins behind the head again
            self._behind = (0, 0)
            self._seen_ms = None if taken else now_ms

    def next_wake_ms(self, db: sqlite3.Connection) -> int | None:
        """The earliest moment at which something is to be looked at. What waits for room is none: whoever makes
        room wakes the loop."""
        return queries.next_wake_ms(db, 0 if self._seen_ms is None else self._seen_ms)


def _due(db: sqlite3.Connection, now_ms: int, limit: int, after: tuple[int, int] = (0, 0)) -> list[DueRow]:
    return list(map(DueRow._make, queries.due(db, now_ms, limit, after)))
