"""A cron text taken apart, for whoever counts the instants of very many texts and cannot walk through each of them.

Texts that differ in their time of day only have the same days in common: what they share is named by ``Shared``, and
is worked out once for all of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tocsin.cron.dates import DatePattern
from tocsin.cron.fields import DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, field
from tocsin.cron.reading import NICKNAMES


class Shared(NamedTuple):
    """What decides on which days, and how a change of the clock is met (rule 8)."""

    zone: str
    day: str
    month: str
    weekday: str
    fixed: bool

    def dates(self) -> DatePattern:
        return _dates(self.day, self.month, self.weekday)


class Outline(NamedTuple):
    """The days, and the times of day on each of them: every combination of the three."""

    shared: Shared
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]

    @property
    def ticks(self) -> int:
        """How many times a day."""
        return len(self.hours) * len(self.minutes) * len(self.seconds)


def six_words(resolved: str, timezone: str) -> tuple[str, list[str]] | None:
    """The zone, and the six words of a settled cron text; None for ``@every`` and ``@at``, which have none."""
    words = resolved.split()
    if words[0].startswith(("CRON_TZ=", "TZ=")):
        timezone = words[0].partition("=")[2]
        del words[0]
    if words[0][0] == "@":
        nickname = NICKNAMES.get(words[0])
        return None if nickname is None else (timezone, nickname.split())
    return timezone, words if len(words) == 6 else ["0", *words]


def outline(resolved: str, timezone: str) -> Outline | None:
    """Of a settled text; None if it is not a cron text. Raises InvalidSchedule where it cannot be read here."""
    found = six_words(resolved, timezone)
    if found is None:
        return None
    where, (second, minute, hour, day, month, weekday) = found
    fixed = second[0] != "*" and minute[0] != "*" and hour[0] != "*"
    return Outline(
        Shared(where, day, month, weekday, fixed),
        field(HOUR, hour).values,
        field(MINUTE, minute).values,
        field(SECOND, second).values,
    )


@lru_cache(maxsize=4096)
def _dates(day: str, month: str, weekday: str) -> DatePattern:
    return DatePattern(field(DAY, day), field(MONTH, month), field(WEEKDAY, weekday))
