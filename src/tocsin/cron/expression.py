"""The façade: a schedule text that has been understood."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from tocsin.cron import changes
from tocsin.cron.explain import explain
from tocsin.cron.instants import instant_of, unix_of
from tocsin.cron.interval import Once
from tocsin.cron.reading import Reading, read

_read = lru_cache(maxsize=4096)(read)


class Expression:
    """When a schedule is due. The same text, zone, identity and anchor always give the same instants.

    ``next_after`` and ``upcoming`` speak ``datetime`` (aware, UTC); the rest speaks whole Unix seconds.
    Occurrences lie in the years 1970 to 9999: asking before that finds the first, asking after it None.
    """

    __slots__ = ("_next", "_reading", "_rule", "text")

    def __init__(self, text: str, reading: Reading) -> None:
        self.text = text
        self._reading = reading
        self._rule = reading.rule
        self._next = reading.rule.next_unix

    @classmethod
    def parse(
        cls, text: str, *, timezone: str = "UTC", identity: str = "", anchor: datetime | None = None
    ) -> Expression:
        """Read a schedule text or raise InvalidSchedule.

        ``identity`` settles ``?`` and ``~``; ``anchor`` is the creation that ``@every`` counts from.
        """
        if text.startswith(
            "@at"
        ):  # they are mostly unlike each other: to remember each would cost more than it spares
            return cls(text, read(text, timezone, "", None))
        # What does not depend on them is read once for all: a text is asked for again right after it was checked.
        if "?" not in text and "~" not in text:
            identity = ""
        if "@every" not in text.lower():
            anchor = None
        return cls(text, _read(text, timezone, identity, anchor))

    @property
    def timezone(self) -> str:
        return self._reading.zone.name

    @property
    def resolved(self) -> str:
        """The text with nothing left to choose; it parses to the same instants without identity or anchor."""
        return self._reading.resolved

    @property
    def is_once(self) -> bool:
        """Is it a single instant, ``@at``?"""
        return isinstance(self._rule, Once)

    def next_after(self, instant: datetime) -> datetime | None:
        """The first occurrence strictly after ``instant``."""
        unix = self._next(unix_of(instant))
        return None if unix is None else instant_of(unix)

    def upcoming(self, after: datetime, count: int) -> list[datetime]:
        """The next ``count`` occurrences, or fewer if there are no more."""
        found: list[datetime] = []
        unix: int | None = unix_of(after)
        while len(found) < count and unix is not None:
            unix = self._next(unix)
            if unix is not None:
                found.append(instant_of(unix))
        return found

    def next_unix(self, unix_seconds: int) -> int | None:
        """The first occurrence strictly after ``unix_seconds``."""
        return self._next(unix_seconds)

    def previous_unix(self, before: int) -> int | None:
        """The last occurrence strictly before ``before``."""
        return self._rule.previous_unix(before)

    def last_unix(self, after: int, upto: int) -> int | None:
        """The last occurrence in (after, upto], found from the end: the distance costs nothing."""
        return self._rule.last_unix(after, upto)

    def count_between(self, after: int, upto: int, limit: int) -> int:
        """How many occurrences lie in (after, upto], counted no further than ``limit``."""
        return self._rule.count_between(after, upto, limit)

    def matches(self, unix_seconds: int) -> bool:
        """Is this very second an occurrence?"""
        return self._rule.matches(unix_seconds)

    def explain(self) -> str:
        """In plain English, with the zone."""
        return explain(self._reading)

    def clock_changes(self, after: int, upto: int) -> list[changes.ClockChange]:
        """Changes of the zone's offset in (after, upto], with what each does to this schedule."""
        return list(changes.between(self._reading, after, upto))

    def __repr__(self) -> str:
        return f"Expression({self.text!r}, timezone={self.timezone!r})"
