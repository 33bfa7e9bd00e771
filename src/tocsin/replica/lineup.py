"""What is due and finds no room stands in lines: one for each lane with its limits, the earliest first.

A million that wait for one limit must hold up nobody else, and must not be read again whenever one of them may go. So
each row is looked at once, when it falls due, and is then remembered by its place (``lines``): a line knows its first
so many, and when it has become short, more of it are looked for behind those. Rows that come to stand before what was
looked at (late by nature) are found by a slow round over everything that is due.

The state is what counts. A row is read again before it is given away, and all of this may be forgotten at any time.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from tocsin.replica.lanes import Key, Keys, Line
from tocsin.replica.limits import LimitedRoom, Waits
from tocsin.replica.lines import Lines, Place
from tocsin.state import queries

SCANNED_MAX = 10_000
"""So many rows are looked at before others have their turn."""
PAGE_MIN = 500
SLICE = 2_000
SLICE_EVERY_MS = 100
IDLE_SLICE_EVERY_MS = 500
"""The round over all that is due: so many rows, this often while there are rows that no line remembers, and less often
where only what came late is to be found."""
FAR = 1 << 62

RowT = TypeVar("RowT", bound=Sequence[object])


class Source(NamedTuple, Generic[RowT]):
    """Where rows come from. Their first two columns are their place, their last is the schedule."""

    row: Callable[[Sequence[Any]], RowT]
    page: Callable[[sqlite3.Connection, int, int, Place, int], queries.Page]
    """Those that are due by a moment, so many at most, behind a place, in so many bytes."""
    fetch: Callable[[sqlite3.Connection, Sequence[int], int], queries.Page]
    """By number, in that order, in so many bytes."""
    expires_ms: Callable[[RowT], int | None]
    """From when on it is not to be started any more; None: there is no such moment."""
    starts_not: Callable[[sqlite3.Connection, Sequence[RowT]], frozenset[int]]
    """Numbers that will not be started now, whatever room there is: they are decided at once."""
    line_of: Callable[[LimitedRoom, RowT], Line]
    """The line in which a row waits."""


class Lineup(Generic[RowT]):
    """The lines of one source, and the look at it."""

    def __init__(self, source: Source[RowT], on_wait: Callable[[int, int], None]) -> None:
        """``on_wait`` is told of each limit how many began to wait for it."""
        self._source = source
        self._on_wait = on_wait
        self.forget()

    def forget(self) -> None:
        """Begin anew: what was given away may not have been taken."""
        self._lines = Lines()
        self._again: list[int] = []
        self._tail: Place = (0, 0)
        """Up to here everything was looked at."""
        self._refill: Place | None = None
        """Up to here more was looked for; None: no line is short."""
        self._swept: Place = (0, 0)
        """Where the round stands."""
        self._slice_ms = 0
        self._looked_ms = 0
        self._is_through = True
        self._room_ms: int | None = None
        self._bytes_left = queries.LOOK_BYTES
        """This look may read so much more."""
        self._given: dict[int, RowT] = {}
        self._new: Counter[Line] = Counter()
        """Who stands in line since this look."""
        self._lanes_wait = False
        """Somebody waits for nothing but room in a lane."""
        self.without_room: set[int] = set()
        """Those that were given in the last look because their time is over."""
        self.expired_for: dict[int, int] = {}
        """Numbers that were given away because their time is over, and the limit that they waited for."""

    # One look

    def rows(self, db: sqlite3.Connection, now_ms: int, limit: int, room: LimitedRoom) -> list[RowT]:
        """Those for whom there is room, and those whose time is over, in the order in which they were due."""
        if now_ms < self._looked_ms:
            self.forget()  # the clock was put back: what was due is not any more
        self._looked_ms = now_ms
        self._bytes_left = queries.LOOK_BYTES
        self._given, self.expired_for, self.without_room = {}, {}, set()
        self._lanes_wait = any(not keys for (_, keys), _ in self._lines.items())
        self._give_away_late(db, now_ms, limit // 2, room)
        self._is_through = self._serve(db, now_ms, limit, room)
        if self._is_through:
            self._meet_late(db, now_ms, limit, room)
            self._is_through = self._look_on(db, now_ms, limit, room)
        if self._bytes_left > 0:
            self._look_for_more(db, now_ms, room)
        if len(self._given) < limit // 2 and self._bytes_left > 0:
            self._go_round(db, now_ms, room)
        self._lines.tidy()
        self._tell_of_new(room)
        self._room_ms = self._next_room_ms(now_ms, room)
        return sorted(self._given.values(), key=_place)

    def came_back(self, numbers: Sequence[int]) -> None:
        """Rows that were given away and are due again at once."""
        self._again += numbers

    def next_ms(self) -> int | None:
        """When to look again, beside when the next row falls due; None: then somebody will say so."""
        if self._again or self._refill is not None or not self._is_through:
            return self._looked_ms
        moments = [self._room_ms, self._lines.next_expiry_ms]
        if self._lines:
            moments.append(self._slice_ms + self._pause_ms())
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def seen_ms(self) -> int:
        """What was due by then needs no look of its own. -1: nothing waits."""
        return self._looked_ms if self._lines else -1

    def waits(self, room: LimitedRoom) -> Waits:
        """How many wait for what."""
        by_limit: Counter[int] = Counter()
        by_key: Counter[Key] = Counter()
        reasons: dict[Keys, int] = {}
        for (_, keys), line in self._lines.items():
            number = room.reached(keys)
            if number is not None:
                by_limit[number] += line.number
                by_key.update(
                    {(number, value): line.number for key, value in keys if key in (number, ~number)}
                )
                reasons[keys] = number
        return Waits(by_limit, by_key, reasons)

    # Its steps

    def _give_away_late(self, db: sqlite3.Connection, now_ms: int, limit: int, room: LimitedRoom) -> None:
        """Whose time is over waits no longer: whoever decides will say so."""
        for row in self._fetch(db, self._lines.expired(now_ms, limit)):
            if self._lines.stands(_place(row)):
                self._meet(row, now_ms, room)

    def _serve(self, db: sqlite3.Connection, now_ms: int, limit: int, room: LimitedRoom) -> bool:
        """The heads of all lines, the earliest first, as long as there is room. False: there was more to give."""
        lines = self._lines
        heads = [(line.places[0], key) for key, line in lines.items() if line.places and room.has(key)]
        heapq.heapify(heads)
        chosen: dict[int, Line] = {}
        while heads and len(self._given) + len(chosen) < limit:
            place, key = heads[0]
            line = lines.get(key)
            if line is None or not room.has(key):
                heapq.heappop(heads)
                continue
            heapq.heappop(line.places)
            if lines.stands(place):
                lines.strike(place[1])
                chosen[place[1]] = key
                room.count_line(key)
            if line.places:
                heapq.heapreplace(heads, (line.places[0], key))
            else:
                heapq.heappop(heads)
        for row in self._fetch(db, list(chosen)):
            self._give(row, chosen[_place(row)[1]], now_ms, room)
        return not heads

    def _give(self, row: RowT, line: Line, now_ms: int, room: LimitedRoom) -> None:
        """If it is still what it was: a schedule may have been changed since."""
        at_ms, number = _place(row)
        if at_ms > now_ms or number in self._given:
            return
        if self._source.line_of(room, row) == line:
            self._given[number] = row
        else:
            self._meet(row, now_ms, room)

    def _meet_late(self, db: sqlite3.Connection, now_ms: int, limit: int, room: LimitedRoom) -> None:
        number = max(PAGE_MIN, limit - len(self._given))
        again, self._again = self._again[:number], self._again[number:]
        rows = [row for row in self._fetch(db, again) if _place(row)[0] <= now_ms]
        self._decide_at_once(db, rows)
        for row in rows:
            if _place(row)[1] not in self._given:
                self._meet(row, now_ms, room)

    def _look_on(self, db: sqlite3.Connection, now_ms: int, limit: int, room: LimitedRoom) -> bool:
        """What has fallen due since the last look. False: there is more of it."""
        if not self._lines:
            self._tail = (0, 0)
        scanned = 0
        while len(self._given) < limit and scanned < SCANNED_MAX and self._bytes_left > 0:
            rows, is_last = self._page(db, now_ms, max(PAGE_MIN, limit - len(self._given)), self._tail)
            self._decide_at_once(db, rows)
            for row in rows:
                if row[1] not in self._given and not self._lines.is_known(row[1]):  # type: ignore[arg-type]  # why: SQL
                    self._meet(row, now_ms, room)
            scanned += len(rows)
            if is_last:
                self._tail = (now_ms, FAR)
                return True
            self._tail = _place(rows[-1])
        return False

    def _look_for_more(self, db: sqlite3.Connection, now_ms: int, room: LimitedRoom) -> None:
        """Lines that have become short, and are not whole, are filled up from behind the last that they remember."""
        lines = self._lines
        if self._refill is None:
            short = lines.short()
            if not short:
                return
            for line in short:
                line.is_refilled = True
            self._refill = min(line.upto for line in short)
        rows, is_last = self._page(db, min(now_ms, self._tail[0]), SLICE, self._refill)
        for row in rows:
            place, key = _place(row), self._source.line_of(room, row)
            found = lines.get(key)
            is_new = place <= self._tail and place[1] not in self._given and not lines.is_known(place[1])
            if is_new and found is not None and found.is_refilled and place > found.upto:
                lines.remember(key, place, self._source.expires_ms(row))
        is_over = is_last or _place(rows[-1]) >= self._tail
        refilled = [line for _, line in lines.items() if line.is_refilled]
        for line in refilled if is_over else ():
            line.filled_up()
        self._refill = _place(rows[-1]) if refilled and not is_over else None

    def _go_round(self, db: sqlite3.Connection, now_ms: int, room: LimitedRoom) -> None:
        """A slice of the round over all that is due and was looked at."""
        if not self._lines or now_ms < self._slice_ms + self._pause_ms():
            return
        self._slice_ms = now_ms
        rows, is_last = self._page(db, min(now_ms, self._tail[0]), SLICE, self._swept)
        for row in rows:
            place = _place(row)
            if place > self._tail or place[1] in self._given:
                continue
            if self._lines.stands(place):
                if self._lines.line_of(place[1]) == self._source.line_of(room, row):
                    continue
                self._lines.strike(place[1])  # its schedule was changed
            self._meet(row, now_ms, room, in_round=True)
        if not is_last:
            self._swept = _place(rows[-1])
            return
        self._swept = (0, 0)
        for _, line in self._lines.items():
            line.beyond, line.met = line.met, 0

    def _page(self, db: sqlite3.Connection, now_ms: int, limit: int, after: Place) -> tuple[list[RowT], bool]:
        """Rows behind a place, and whether there are no more."""
        page = self._source.page(db, now_ms, limit, after, self._bytes_left)
        self._bytes_left -= page.size
        return list(map(self._source.row, page.rows)), page.is_last

    def _fetch(self, db: sqlite3.Connection, numbers: Sequence[int]) -> list[RowT]:
        """Rows by number. Those for which there are no bytes left are looked at in the next turn."""
        if not numbers:
            return []
        if self._bytes_left <= 0:
            self._again += numbers
            return []
        page = self._source.fetch(db, numbers, self._bytes_left)
        self._bytes_left -= page.size
        if not page.is_last:
            self._again += numbers[numbers.index(page.rows[-1][1]) + 1 :]
        return list(map(self._source.row, page.rows))

    def _decide_at_once(self, db: sqlite3.Connection, rows: Sequence[RowT]) -> None:
        """Who will not be started needs no room."""
        numbers = self._source.starts_not(db, rows)
        for row in rows if numbers else ():
            if _place(row)[1] in numbers:
                self._leave(row)

    def _meet(self, row: RowT, now_ms: int, room: LimitedRoom, *, in_round: bool = False) -> None:
        """A row: it may go, its time is over, or it stands in its line."""
        place, spec = _place(row), _spec(row)
        is_free = not self._lanes_wait and not room.has_limits(spec)
        if is_free and room.takes_in_lane(spec):
            self._given[place[1]] = row  # a herd that has no limits takes the short way
            return
        key = self._source.line_of(room, row)
        line = self._lines.get(key)
        if (line is None or not (line.live or line.beyond)) and room.has(key):
            room.count_line(key)
            self._leave(row)
            return
        expires_ms = self._source.expires_ms(row)
        if expires_ms is not None and expires_ms <= now_ms:
            if key[1]:
                self.expired_for[place[1]] = room.reason(key[1])
            self.without_room.add(place[1])
            self._leave(row)
        elif not self._lines.stands(place) and self._lines.line_up(key, place, expires_ms, in_round=in_round):
            self._new[key] += 1

    def _tell_of_new(self, room: LimitedRoom) -> None:
        for (_, keys), number in self._new.items():
            if keys:
                self._on_wait(room.reason(keys), number)
        self._new.clear()

    def _leave(self, row: RowT) -> None:
        """It is given away, from wherever it stood."""
        number = _place(row)[1]
        self._given[number] = row
        self._lines.strike(number)

    def _pause_ms(self) -> int:
        return IDLE_SLICE_EVERY_MS if self._lines.are_whole else SLICE_EVERY_MS

    def _next_room_ms(self, now_ms: int, room: LimitedRoom) -> int | None:
        in_ms = room.in_ms(keys for (_, keys), line in self._lines.items() if line.live)
        return None if in_ms is None else now_ms + in_ms


def _place(row: Sequence[object]) -> Place:
    return row[0], row[1]  # type: ignore[return-value]  # why: the columns of SQL are untyped


def _spec(row: Sequence[object]) -> bytes:
    return row[-1]  # type: ignore[return-value]  # why: the same
