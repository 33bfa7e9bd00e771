"""From fields to instants: the search, forwards and backwards.

Time is walked segment by segment (stretches under one UTC offset, see ``zones``). Inside a segment local time
is UTC plus a constant, so a search is: find the day, find the time of day, subtract the offset. Daylight
saving is decided where a segment is entered: ``Segment.entry`` says from which local second a *fixed*
schedule looks. A match that lies in a filled gap is before the segment's first instant and is moved there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right

from tocsin.cron.clock import Clock
from tocsin.cron.dates import DatePattern
from tocsin.cron.zones import UNIX_MAX, Zone

_NO_WINDOW = (0, 0, 0)


class Rule(ABC):
    """What every kind of schedule text becomes. Instants are whole Unix seconds, 1970 to 9999."""

    __slots__ = ()

    @abstractmethod
    def next_unix(self, unix: int) -> int | None:
        """The first occurrence strictly after ``unix``."""

    @abstractmethod
    def previous_unix(self, before: int) -> int | None:
        """The last occurrence strictly before ``before``."""

    def matches(self, unix: int) -> bool:
        return self.next_unix(unix - 1) == unix

    def last_unix(self, after: int, upto: int) -> int | None:
        found = self.previous_unix(upto + 1)
        return found if found is not None and found > after else None

    def count_between(self, after: int, upto: int, limit: int) -> int:
        count, found = 0, self.next_unix(after)
        while count < limit and found is not None and found <= upto:
            count += 1
            found = self.next_unix(found)
        return count


class Recurrence(Rule):
    """A cron text: times of day on matching dates in a zone."""

    __slots__ = ("_clock", "_dates", "_fixed", "_ticks", "_window", "_zone")

    def __init__(self, clock: Clock, dates: DatePattern, zone: Zone, *, fixed: bool) -> None:
        self._clock = clock
        self._dates = dates
        self._zone = zone
        self._fixed = fixed
        self._ticks = clock.ticks
        # From, until and base of the piece of a day (see Clock) in which the last answer lay: for any instant
        # of it the answer is one bisection away. Replaced as one object, so threads cannot see half of it.
        self._window = _NO_WINDOW

    @property
    def fixed(self) -> bool:
        """Does it name its time of day? Then a change of the clock neither repeats nor drops it (rule 8)."""
        return self._fixed

    def next_unix(self, unix: int) -> int | None:
        since, until, base = self._window
        if since <= unix < until:
            return base + self._ticks[bisect_right(self._ticks, unix - base)]
        return self._search(max(unix + 1, 0))

    def _search(self, unix: int) -> int | None:
        """The first occurrence at or after ``unix``."""
        clock = self._clock
        while unix <= UNIX_MAX:
            start, end, offset, entry = self._zone.segment(unix)
            local = unix + offset
            if self._fixed and (unix == start or local < entry):
                local = entry
            day, time = divmod(local, 86_400)
            if time > clock.last:
                day, time = day + 1, 0
            found_day = self._dates.first_from(day)
            if found_day is None:
                return None
            mark, tick = clock.first_from(time if found_day == day else 0)
            base = found_day * 86_400 + mark - offset
            if base + tick < end:
                return self._found(base, tick, start, end)
            # A fixed schedule meets each local second once, so nothing fires before the one that was found;
            # two days cover any change of offset. A wildcard may fire in a repeated hour: go step by step.
            unix = max(end, base + tick - 2 * 86_400) if self._fixed else end
        return None

    def _found(self, base: int, tick: int, start: int, end: int) -> int:
        if base + tick < start:
            return start
        last = base + self._ticks[-1]
        if last < end:
            self._window = (base + tick, last, base)
        return base + tick

    def previous_unix(self, before: int) -> int | None:
        unix = min(before - 1, UNIX_MAX)
        while unix >= 0:
            start, _, offset, entry = self._zone.segment(unix)
            local = self._last_local(unix + offset)
            if local is None:
                return None
            if local >= (entry if self._fixed else start + offset):
                return max(local - offset, start)
            unix = start - 1
        return None

    def _last_local(self, local: int) -> int | None:
        day, time = divmod(local, 86_400)
        if time < self._clock.first:
            day, time = day - 1, 86_399
        found_day = self._dates.last_upto(day)
        if found_day is None:
            return None
        return found_day * 86_400 + self._clock.last_upto(time if found_day == day else 86_399)
