"""Which seconds of a day match: second, minute and hour multiplied out, but never into 86,400 numbers.

The day is cut at ``marks`` and each piece holds the same ``ticks``: the whole day once if that is a short
list, else hour by hour, else minute by minute.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from tocsin.cron.fields import Field

_TICKS_MAX = 300


class Clock:
    """Times of day, in seconds from local midnight; shared by every expression with the same three fields."""

    __slots__ = ("first", "last", "marks", "ticks")

    def __init__(self, second: Field, minute: Field, hour: Field) -> None:
        hours = tuple(value * 3600 for value in hour.values)
        minutes = tuple(value * 60 for value in minute.values)
        seconds = second.values
        if len(hours) * len(minutes) * len(seconds) <= _TICKS_MAX:
            self.marks: tuple[int, ...] = (0,)
            self.ticks = tuple([h + m + s for h in hours for m in minutes for s in seconds])
        elif len(minutes) * len(seconds) <= _TICKS_MAX:
            self.marks = hours
            self.ticks = tuple([m + s for m in minutes for s in seconds])
        else:
            self.marks = tuple([h + m for h in hours for m in minutes])
            self.ticks = seconds
        self.first = self.marks[0] + self.ticks[0]
        self.last = self.marks[-1] + self.ticks[-1]

    def first_from(self, time: int) -> tuple[int, int]:
        """Mark and tick of the first match at or after ``time``, which must not be after ``last``."""
        marks, ticks = self.marks, self.ticks
        index = bisect_right(marks, time) - 1
        if index < 0 or time - marks[index] > ticks[-1]:
            return marks[index + 1], ticks[0]
        return marks[index], ticks[bisect_left(ticks, time - marks[index])]

    def last_upto(self, time: int) -> int:
        """The last match at or before ``time``, which must not be before ``first``."""
        index = bisect_right(self.marks, time) - 1
        if time - self.marks[index] < self.ticks[0]:
            index -= 1
        mark = self.marks[index]
        return mark + self.ticks[bisect_right(self.ticks, time - mark) - 1]
