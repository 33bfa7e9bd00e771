"""Which days match. A day is counted from 1970-01-01, a weekday from Sunday.

The calendar has only fourteen different years: common or leap, beginning on one of seven weekdays, and each
of them occurs in every 400-year cycle. So a date pattern is at most fourteen numbers, one bit per day of the
year; "never fires" is exactly "all fourteen are zero", and the next day is the lowest bit above today's.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from tocsin.cron.fields import Field, Special

_YEAR_FIRST, _YEAR_LAST = 1969, 9999  # 1969: the last evening before 1970 in the west
_LENGTHS = (
    (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31),
    (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31),
)
_STARTS = tuple(tuple(accumulate(lengths[:-1], initial=0)) for lengths in _LENGTHS)
SUNDAY, SATURDAY = 0, 6
SHAPES = 14


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _year_tables() -> tuple[tuple[int, ...], tuple[int, ...]]:
    starts, shapes, day = [], [], -365
    for year in range(_YEAR_FIRST, _YEAR_LAST + 1):
        leap = _is_leap(year)
        starts.append(day)
        shapes.append(leap * 7 + weekday_of(day))
        day += 365 + leap
    return tuple(starts), tuple(shapes)


def weekday_of(day: int) -> int:
    return (day + 4) % 7  # 1970-01-01 was a Thursday


_YEAR_STARTS, _YEAR_SHAPES = _year_tables()


_FULL_YEARS = ((1 << 365) - 1, (1 << 366) - 1)
_EVERY_SEVENTH = sum(1 << day for day in range(0, 371, 7))


class DatePattern:
    """The day, month and weekday fields as sets of days; shared by every expression with the same three."""

    __slots__ = ("_both", "_day", "_month", "_weekday", "_years")

    def __init__(self, day: Field, month: Field, weekday: Field) -> None:
        self._day = day
        self._month = month
        self._weekday = weekday
        self._both = weekday.both or day.star or weekday.star  # rule 2
        self._years: list[int | None] = [None] * SHAPES

    def ever_matches(self) -> bool:
        # Leap years first: nearly every pattern that ever matches does so in one of them.
        return any(self.year(shape) for shape in reversed(range(SHAPES)))

    def first_from(self, day: int) -> int | None:
        """The first matching day that is not before ``day``."""
        index = bisect_right(_YEAR_STARTS, day) - 1
        if index < 0:
            index, day = 0, _YEAR_STARTS[0]
        ahead = self.year(_YEAR_SHAPES[index]) >> (day - _YEAR_STARTS[index])
        while not ahead:
            index += 1
            if index == len(_YEAR_STARTS):
                return None
            day, ahead = _YEAR_STARTS[index], self.year(_YEAR_SHAPES[index])
        return day + (ahead & -ahead).bit_length() - 1

    def last_upto(self, day: int) -> int | None:
        """The last matching day that is not after ``day``."""
        index = bisect_right(_YEAR_STARTS, day) - 1
        if index < 0:
            return None
        behind = self.year(_YEAR_SHAPES[index]) & ((2 << (day - _YEAR_STARTS[index])) - 1)
        while not behind:
            index -= 1
            if index < 0:
                return None
            behind = self.year(_YEAR_SHAPES[index])
        return _YEAR_STARTS[index] + behind.bit_length() - 1

    def year(self, shape: int) -> int:
        """One bit per day of a year of that shape, 1 January lowest."""
        days = self._years[shape]
        if days is None:
            days = self._years[shape] = self._year(*divmod(shape, 7))
        return days

    def _year(self, leap: int, first: int) -> int:
        by_day = _days(self._day, self._month, leap, first)
        by_weekday = _weekdays(self._weekday, leap, first)
        days = by_day & by_weekday if self._both else by_day | by_weekday
        return days & _months(self._month, leap)


def _months(month: Field, leap: int) -> int:
    if len(month.values) == 12:
        return _FULL_YEARS[leap]
    return sum(((1 << _LENGTHS[leap][value - 1]) - 1) << _STARTS[leap][value - 1] for value in month.values)


def _days(field: Field, month: Field, leap: int, first: int) -> int:
    """The day field's days, in the given months, of a year whose 1 January is the weekday ``first``."""
    if len(field.values) == 31:
        return _FULL_YEARS[leap]
    plain = sum([1 << (day - 1) for day in field.values])
    days = 0
    for value in month.values:
        start, length = _STARTS[leap][value - 1], _LENGTHS[leap][value - 1]
        those = plain & ((1 << length) - 1)
        for special in field.specials:
            day = _special_day(special, (first + start) % 7, length)
            if day > 0:
                those |= 1 << (day - 1)
        days |= those << start
    return days


def _special_day(special: Special, first: int, length: int) -> int:
    """A day of a month of that length whose 1st is the weekday ``first``; 0 or less: it has no such day."""
    if special.kind == "last":
        return length - special.value
    if special.kind == "last workday":
        return _nearest_workday(length, first, length)
    return _nearest_workday(special.value, first, length) if special.value <= length else 0


def _nearest_workday(day: int, first: int, length: int) -> int:
    """Saturday moves to Friday and Sunday to Monday, but never into another month."""
    weekday = (first + day - 1) % 7
    if weekday == SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == SUNDAY:
        return day + 1 if day < length else day - 2
    return day


def _weekdays(field: Field, leap: int, first: int) -> int:
    if len(field.values) == 7:
        return _FULL_YEARS[leap]
    days = 0
    for weekday in field.values:
        days |= _EVERY_SEVENTH << ((weekday - first) % 7)
    for special in field.specials:
        for start, length in zip(_STARTS[leap], _LENGTHS[leap], strict=True):
            day = (special.value - first - start) % 7
            day += 7 * (special.nth - 1) if special.kind == "nth" else (length - 1 - day) // 7 * 7
            if day < length:
                days |= 1 << (start + day)
    return days
