"""A schedule in plain English: when in the day, on which days, in which months, in which zone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise, product

from tocsin.cron.fields import DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, Field, Special, field
from tocsin.cron.instants import text_of
from tocsin.cron.interval import Every, Once
from tocsin.cron.reading import Reading

_MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_UNIT_NAMES = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
_TIMES_LISTED_MAX = 6
_EXACT = re.compile("at [0-9]")


def explain(reading: Reading) -> str:
    if isinstance(reading.rule, Every):
        return _every(reading.rule)
    if isinstance(reading.rule, Once):
        return f"once, at {text_of(reading.rule.unix)}"
    second, minute, hour, day, month, weekday = (
        field(kind, word)
        for kind, word in zip((SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY), reading.words, strict=True)
    )
    time = _time(second.values, minute.values, hour.values)
    date = _date(day, month, weekday)
    if _EXACT.match(time) and not date:
        date = ["every day"]
    # "every 5 minutes" is true in UTC without saying so; anything that names an hour or a day is not.
    told = date or len(hour.values) < 24 or reading.zone.name != "UTC"
    return ", ".join([time, *date, *([reading.zone.name] if told else [])])


def _every(rule: Every) -> str:
    words, rest = [], rule.period_s
    for name, size in _UNIT_NAMES.items():
        count, rest = divmod(rest, size)
        if count:
            words.append(_plural(count, name))
    text = words[0].removeprefix("1 ") if len(words) == 1 else _and(words)
    return f"every {text}" + ("" if rule.anchor is None else f", counted from {text_of(rule.anchor)}")


def _time(seconds: Sequence[int], minutes: Sequence[int], hours: Sequence[int]) -> str:
    if len(seconds) * len(minutes) * len(hours) <= _TIMES_LISTED_MAX:
        clock = "{:02}:{:02}" if seconds == (0,) else "{:02}:{:02}:{:02}"
        return "at " + _and([clock.format(*time) for time in product(hours, minutes, seconds)])
    if seconds == (0,):
        if minutes == (0,):
            return _pace("hour", hours, 24)
        return _within(_pace("minute", minutes, 60), ("hour", hours, 24))
    return _within(_pace("second", seconds, 60), ("minute", minutes, 60), ("hour", hours, 24))


def _pace(unit: str, values: Sequence[int], size: int) -> str:
    """The finest unit: "every 5 minutes", "every minute from 3 to 9", "at minutes 1, 2 and 40"."""
    step = _step(values)
    if step and _is_whole(values, step, size):
        return f"every {unit}" if step == 1 else f"every {step} {unit}s"
    name = (lambda hour: f"{hour:02}:00") if unit == "hour" else str
    if step and len(values) >= 3:
        pace = unit if step == 1 else f"{_ordinal(step)} {unit}"
        return f"every {pace} from {name(values[0])} to {name(values[-1])}"
    if unit == "hour":
        return f"at {_and([name(value) for value in values])}"
    return f"at {unit} {values[0]}" if len(values) == 1 else f"at {unit}s {_and(_runs(values, name))}"


def _within(pace: str, *coarser: tuple[str, Sequence[int], int]) -> str:
    """The units around it. What runs through every hour needs no mention; what stands still does."""
    parts = [pace]
    for unit, values, size in coarser:
        step = _step(values)
        if len(values) == size:
            if parts[-1].startswith(("at ", "in ")) or " from " in parts[-1]:
                parts.append(f"of every {unit}")
                break
        elif step and _is_whole(values, step, size):
            parts.append(f"of every {_ordinal(step)} {unit}")
        elif unit == "hour" and _is_run(values) and parts == [pace] and _is_bare(pace):
            parts.append(f"from {values[0]:02}:00 to {values[-1]:02}:59")
        else:
            parts.append(
                f"in {unit} {values[0]}" if len(values) == 1 else f"in {unit}s {_and(_runs(values, str))}"
            )
    return " ".join(parts)


def _is_bare(pace: str) -> bool:
    return pace.startswith("every") and " from " not in pace


def _step(values: Sequence[int]) -> int:
    """The one distance between neighbours, or 0."""
    steps = {later - earlier for earlier, later in pairwise(values)}
    return steps.pop() if len(steps) == 1 else 0


def _is_whole(values: Sequence[int], step: int, size: int) -> bool:
    """The steps go round without a seam: */5 in the minute, but not */7."""
    return values[0] == 0 and values[-1] + step == size


def _date(day: Field, month: Field, weekday: Field) -> list[str]:
    every_day, every_weekday = len(day.values) == 31, len(weekday.values) == 7
    both = day.star or weekday.star or weekday.both
    parts = []
    if (every_day and every_weekday) or (not both and (every_day or every_weekday)):
        pass
    elif every_day:
        parts.append(("on " if weekday.specials else "") + _weekdays(weekday))
    elif every_weekday:
        parts.append(f"on {_days(day)}")
    else:
        link, note = ("and", "both must match") if both else ("or", "either is enough")
        parts.append(f"on {_days(day)} {link} on {_weekdays(weekday)} ({note})")
    if len(month.values) < 12:
        parts.append("in " + _and(_runs(month.values, lambda value: _MONTH_NAMES[value - 1])))
    return parts


def _days(day: Field) -> str:
    step = _step(day.values)
    if len(day.values) >= 4 and step > 1:
        first, last = _ordinal(day.values[0]), _ordinal(day.values[-1])
        parts = [f"every {_ordinal(step)} day from the {first} to the {last}"]
    else:
        parts = _runs(day.values, lambda value: f"the {_ordinal(value)}")
    return _and(parts + [_special_day(special) for special in day.specials])


def _special_day(special: Special) -> str:
    if special.kind == "last workday":
        return "the last workday of the month"
    if special.kind == "workday":
        return f"the workday nearest to the {_ordinal(special.value)}"
    if special.value:
        return f"{_plural(special.value, 'day')} before the last day of the month"
    return "the last day of the month"


def _weekdays(weekday: Field) -> str:
    # A week is told from Monday on: "Saturday and Sunday", not "Sunday and Saturday".
    told = sorted(value or 7 for value in weekday.values)
    parts = _runs(told, lambda value: _WEEKDAY_NAMES[value % 7])
    for special in weekday.specials:
        which = "last" if special.kind == "last" else _ordinal(special.nth)
        parts.append(f"the {which} {_WEEKDAY_NAMES[special.value]} of the month")
    return _and(parts)


def _runs(values: Sequence[int], name: Callable[[int], str]) -> list[str]:
    """Three or more in a row become a range: "1, 5 to 9 and 12"."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    words: list[str] = []
    for run in runs:
        words += [name(value) for value in run] if len(run) < 3 else [f"{name(run[0])} to {name(run[-1])}"]
    return words


def _is_run(values: Sequence[int]) -> bool:
    return values[-1] - values[0] == len(values) - 1


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}" + {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
