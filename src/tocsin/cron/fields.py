"""One field of a cron text: its words, its range, its values.

``field`` reads a settled text (no ``?`` or ``~`` left, see ``settle``) and remembers what it read: the same
few texts make up most schedules. A refusal names the field, the value, what is allowed and what was meant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tocsin.cron import hints
from tocsin.errors import InvalidSchedule

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: a Kind is half of a memory's key
class Kind:
    """What may stand in a field. ``choice_high`` ends the span from which ``?`` chooses (rule 3)."""

    name: str
    low: int
    high: int
    choice_high: int
    names: tuple[str, ...] = ()

    @property
    def noun(self) -> str:
        return f"{'an' if self is HOUR else 'a'} {self.name}"

    @property
    def allowed(self) -> str:
        names = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        special = {"day": ", L, L-1 to L-30, LW, 1W to 31W", "weekday": ", v#1 to v#5, vL"}.get(self.name, "")
        return f"{self.low}-{self.high}{names}{special}"


SECOND = Kind("second", 0, 59, 59)
MINUTE = Kind("minute", 0, 59, 59)
HOUR = Kind("hour", 0, 23, 23)
DAY = Kind("day", 1, 31, 28)
MONTH = Kind("month", 1, 12, 12, MONTHS)
WEEKDAY = Kind("weekday", 0, 7, 6, WEEKDAYS)
KINDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)


class Special(NamedTuple):
    """A day that depends on the month.

    In the day: ``last`` (so many days before the last), ``last workday``, ``workday`` (nearest to that day).
    In the weekday: ``nth`` and ``last`` of that weekday.
    """

    kind: str
    value: int = 0
    nth: int = 0


class Field(NamedTuple):
    """A field that has been read."""

    text: str
    values: tuple[int, ...]
    """Sorted; Sunday is 0. What the specials stand for is not among them."""
    specials: tuple[Special, ...]
    star: bool
    """The text starts with ``*``: rules 2 and 8 ask for that, not for what the field matches."""
    both: bool
    """The text starts with ``+``: day and weekday must both match."""


VALUE = "[0-9]+|[A-Za-z]+"
_PLAIN = re.compile(rf"(?:\*|({VALUE})(?:-({VALUE}))?)(?:/([0-9]+))?")
_LAST_DAY = re.compile(r"[Ll](?:-([0-9]+))?")
_WORKDAY = re.compile(r"([0-9]+)[Ww]")
_NTH = re.compile(rf"({VALUE})#([0-9]+)")
_LAST = re.compile(r"([0-9]+|[A-Za-z]{3})[Ll]")


@lru_cache(maxsize=4096)
def field(kind: Kind, text: str) -> Field:
    both = kind is WEEKDAY and text.startswith("+")
    items = text[1:] if both else text
    if not items.isascii():  # before upper(): it would turn a foreign letter into one of ours
        raise refused(kind, text, f"{text!r} is not plain ASCII")
    values: set[int] = set()
    specials = []
    for item in items.split(","):
        special = _special(kind, item)
        if special is None:
            values.update(_values(kind, item))
        else:
            specials.append(special)
    if kind is WEEKDAY and 7 in values:
        values = (values - {7}) | {0}
    return Field(text, tuple(sorted(values)), tuple(specials), items[0] == "*", both)


def _values(kind: Kind, item: str) -> range:
    shape = _PLAIN.fullmatch(item)
    if shape is None:
        message = f"{item!r} is not understood" if item else "an item is empty"
        raise refused(kind, item, message, hints.junk(kind, item))
    start, end, every = shape.groups()
    if start is None:
        low, high = kind.low, kind.high
    else:
        low, high = bounds(kind, item, start, end or (None if every else start))
    return range(low, high + 1, 1 if every is None else step(kind, item, every))


def step(kind: Kind, item: str, text: str) -> int:
    every = int(text)
    if every == 0:
        raise InvalidSchedule(
            f"the step of {item!r} is 0", field=kind.name, value=item, allowed="a step of 1 or more"
        )
    return every


def bounds(kind: Kind, item: str, start: str, end: str | None) -> tuple[int, int]:
    """Both ends of a range as numbers; without ``end`` the range runs to the field's maximum."""
    low = number(kind, start, item)
    if end is None:
        return low, kind.high
    # Sunday ends a week as well as beginning it: FRI-SUN is FRI-7. SUN-SUN is not reversed: Sunday alone.
    high = 7 if kind is WEEKDAY and end.upper() == "SUN" and low > 0 else number(kind, end, item)
    if low > high:
        raise refused(kind, item, f"{item!r} runs backwards", hints.backwards(kind, start, end))
    return low, high


def number(kind: Kind, text: str, item: str) -> int:
    if text[0] in "0123456789":
        value = int(text)
        if not kind.low <= value <= kind.high:
            shown = text if len(text) <= 20 else text[:17] + "..."
            raise refused(kind, item, f"{shown} is out of range", hints.out_of_range(kind, value))
        return value
    if text.upper() in kind.names:
        return kind.names.index(text.upper()) + kind.low
    raise refused(kind, item, f"{text!r} is not {kind.noun}", hints.name(kind, text.upper()))


def _special(kind: Kind, item: str) -> Special | None:
    if item == "*" or item.isdigit():
        return None
    if kind is DAY:
        return _special_day(item)
    if kind is WEEKDAY:
        return _special_weekday(item)
    return None


def _special_day(item: str) -> Special | None:
    if item.upper() == "LW":
        return Special("last workday")
    if shape := _LAST_DAY.fullmatch(item):
        if shape[1] and not 1 <= int(shape[1]) <= 30:
            raise refused(DAY, item, f"{item!r} is out of range", "write L for the last day itself")
        return Special("last", int(shape[1] or 0))
    if shape := _WORKDAY.fullmatch(item):
        return Special("workday", number(DAY, shape[1], item))
    return None


def _special_weekday(item: str) -> Special | None:
    if shape := _NTH.fullmatch(item):
        if not 1 <= int(shape[2]) <= 5:
            raise refused(
                WEEKDAY,
                item,
                f"no month has a weekday {int(shape[2])} times",
                "write #1 to #5, or L for the last",
            )
        return Special("nth", number(WEEKDAY, shape[1], item) % 7, int(shape[2]))
    if shape := _LAST.fullmatch(item):
        return Special("last", number(WEEKDAY, shape[1], item) % 7)
    return None


def refused(kind: Kind, value: str, message: str, hint: str = "") -> InvalidSchedule:
    return InvalidSchedule(message, field=kind.name, value=value, allowed=kind.allowed, hint=hint)
