"""The two schedules without a calendar: ``@every`` (elapsed time) and ``@at`` (once)."""

from __future__ import annotations

from tocsin.cron.recurrence import Rule
from tocsin.cron.zones import UNIX_MAX


class Every(Rule):
    """The anchor and every whole number of periods after it. Nothing lies before the anchor.

    Without an anchor the instant that is asked about takes its place, so the next occurrence is always one
    period away; looking back from an instant then finds nothing.
    """

    __slots__ = ("anchor", "period_s")

    def __init__(self, period_s: int, anchor: int | None) -> None:
        self.period_s = period_s
        self.anchor = anchor

    def next_unix(self, unix: int) -> int | None:
        if self.anchor is None:
            found = max(unix, 0) + self.period_s
        elif unix < self.anchor:
            found = self.anchor
        else:
            found = unix + self.period_s - (unix - self.anchor) % self.period_s
        return found if found <= UNIX_MAX else None

    def previous_unix(self, before: int) -> int | None:
        before = min(before, UNIX_MAX + 1)
        if self.anchor is None or before <= self.anchor:
            return None
        return before - 1 - (before - 1 - self.anchor) % self.period_s

    def matches(self, unix: int) -> bool:
        return self.anchor is not None and super().matches(unix)

    def last_unix(self, after: int, upto: int) -> int | None:
        if self.anchor is not None:
            return super().last_unix(after, upto)
        after, upto = max(after, 0), min(upto, UNIX_MAX)
        periods = (upto - after) // self.period_s
        return after + periods * self.period_s if periods > 0 else None

    def count_between(self, after: int, upto: int, limit: int) -> int:
        first, last = self.next_unix(after), self.last_unix(after, upto)
        if first is None or last is None:
            return 0
        return max(0, min(limit, (last - first) // self.period_s + 1))


class Once(Rule):
    """A single instant."""

    __slots__ = ("unix",)

    def __init__(self, unix: int) -> None:
        self.unix = unix

    def next_unix(self, unix: int) -> int | None:
        return self.unix if unix < self.unix else None

    def previous_unix(self, before: int) -> int | None:
        return self.unix if self.unix < before else None
