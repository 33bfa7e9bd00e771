"""The count of the day to come, kept in memory and asked before a schedule is written: is some second too full?

It is made from the state now and then, and meanwhile goes along with what passes through. To ask costs microseconds,
however many schedules there are: a schedule's own seconds are looked up. What is due every minute in the same seconds
is counted by the second of the minute, not 1,440 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tocsin.cron.outline import Outline, Shared, outline
from tocsin.cron.zones import zone
from tocsin.decide.forecast.days import Days, days_of, ticks
from tocsin.decide.forecast.tally import Text, every_s, within
from tocsin.decide.timeline import plan
from tocsin.model.rule import Rule, decode_rule

DAY_S = 86_400
JITTERED_MAX = 200
"""A schedule with jitter that is due more often than this in a day is not looked at: it is spread already."""


class Crowd(NamedTuple):
    """A second that is full: how many launches it has already."""

    at_s: int
    number: int


class Seconds(NamedTuple):
    """When a schedule is due in the day to come: at these instants, or every minute in these seconds."""

    instants: Sequence[int] = ()
    every_minute: Sequence[int] = ()
    after_s: int = 0
    """Every minute after this moment."""


class Herd:
    """Launches per second from ``from_s`` on."""

    def __init__(self, from_s: int, counts: list[float]) -> None:
        self.from_s = from_s
        self.to_s = from_s + len(counts)
        self._counts = counts
        self._beats = [0.0] * 60
        """Of what is due every minute: by the second of the minute."""
        self._highest = [max(counts[self._first(second) :: 60], default=0) for second in range(60)]
        self._top, self._top_beat = max(self._highest), 0.0
        """Of all seconds, and of all seconds of the minute: no less than the fullest."""
        self._days: dict[Shared, Days] = {}

    def seconds_of(self, id: str, text: Text, now_s: int) -> Seconds:
        """When a schedule with this settled text is due within a day."""
        rule = decode_rule(text.rule)
        from_s, to_s = within(rule, max(now_s + 1, self.from_s), min(now_s + DAY_S, self.to_s))
        found = outline(text.resolved, text.zone)
        is_cut = bool(rule.start_ms or rule.end_ms)
        if found is None:
            period_s = every_s(text.resolved)
            if not period_s or rule.jitter_ms:
                instants: Sequence[int] = list(plan(*text).instants(from_s - 1, to_s - 1))
            else:
                first_s = plan(*text).expression.next_unix(from_s - 1) or to_s
                if 60 % period_s == 0 and not is_cut and first_s < from_s + period_s:
                    return Seconds((), range(first_s % period_s, 60, period_s), now_s)
                instants = range(first_s, to_s, period_s)
        elif not is_cut and not rule.jitter_ms and self._is_every_minute(found):
            return Seconds((), found.seconds, now_s)
        else:
            instants = self._instants(found, from_s, to_s)
        return Seconds(self._delayed(id, text, rule, instants) if rule.jitter_ms else instants)

    def crowd(self, seconds: Seconds, limit: int) -> Crowd | None:
        """The fullest of these seconds, if one more launch would be more than the limit."""
        if self._top + self._top_beat + 1 <= limit:
            return None  # nobody need look further: nowhere is it that full
        counts, beats, from_s = self._counts, self._beats, self.from_s
        worst, worst_at = -1.0, 0
        for at_s in seconds.instants:
            if not from_s <= at_s < self.to_s:
                continue
            count = counts[at_s - from_s] + beats[at_s % 60]
            if count > worst:
                worst, worst_at = count, at_s
        for second in seconds.every_minute:
            if self._highest[second] + beats[second] + 1 > limit:
                highest, at_s = self._fullest(second, seconds.after_s)
                if highest + beats[second] > worst:
                    worst, worst_at = highest + beats[second], at_s
        return None if worst + 1 <= limit else Crowd(worst_at, round(worst))

    def add(self, seconds: Seconds, count: int = 1) -> None:
        """A schedule more, or with -1 one less."""
        counts, highest, from_s = self._counts, self._highest, self.from_s
        for at_s in seconds.instants:
            if from_s <= at_s < self.to_s:  # they may have been reckoned for the count before this one
                counts[at_s - from_s] += count
                if counts[at_s - from_s] > highest[at_s % 60]:
                    highest[at_s % 60] = counts[at_s - from_s]
                    self._top = max(self._top, counts[at_s - from_s])
        for second in seconds.every_minute:
            self._beats[second] += count
            self._top_beat = max(self._top_beat, self._beats[second])

    def _first(self, second: int) -> int:
        """The first place whose instant is in that second of its minute."""
        return (second - self.from_s) % 60

    def _fullest(self, second: int, after_s: int) -> tuple[float, int]:
        """Of the minutes to come. What was remembered of it may be more: some have passed, and some were taken away."""
        first = self._first(second)
        first += max(0, -(-(after_s + 1 - self.from_s - first) // 60) * 60)
        counts = self._counts[first::60] or [0.0]
        highest = self._highest[second] = max(counts)
        return highest, self.from_s + first + 60 * counts.index(highest)

    def _instants(self, found: Outline, from_s: int, to_s: int) -> list[int]:
        days = self._days.get(found.shared)
        if days is None:
            if len(self._days) > 4096:
                self._days.clear()
            days = self._days[found.shared] = days_of(found.shared, self.from_s, self.to_s)
        instants = [gap.instant_s for gap in days.gaps if gap.meets(found)]
        times = ticks(found)
        for base, first, end in days.pieces:
            instants += [base + tick for tick in times if first <= tick < end]
        return [at_s for at_s in instants if from_s <= at_s < to_s]

    def _delayed(self, id: str, text: Text, rule: Rule, instants: Sequence[int]) -> list[int]:
        """With the delay that each launch will really have."""
        if len(instants) > JITTERED_MAX:
            return []
        settled = plan(*text)
        planned = (settled.slot(id, instant).planned_ms // 1000 for instant in instants)
        return [at_s for at_s in planned if at_s < self.to_s]

    def _is_every_minute(self, found: Outline) -> bool:
        shared = found.shared
        return (
            len(found.hours) == 24
            and len(found.minutes) == 60
            and shared.day == shared.month == shared.weekday == "*"
            and not shared.fixed
            and zone(shared.zone).segment(self.from_s).offset % 60 == 0
        )
