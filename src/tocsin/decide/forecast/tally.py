"""Launches per second of a time to come, counted from columns."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from tocsin.cron import parse_duration
from tocsin.cron.outline import Outline, Shared, outline
from tocsin.decide.forecast.days import Days, days_of, ticks
from tocsin.decide.timeline import plan
from tocsin.errors import InvalidInput, InvalidSchedule
from tocsin.model.rule import Rule, decode_rule

TEXTS_KEPT = 200_000
"""So many different texts are remembered for those who ask who it was; the rarest are let go beyond that."""
WALKED_MAX = 5_000_000
"""The tally lays out at most this number of instants with jitter one by one, of all texts together."""
_DAILY_JITTER_MAX_MS = 20 * 3_600_000
"""A text of one time a day has its next occurrence further away than this, whatever the clocks do."""


class Text(NamedTuple):
    """A settled text with its zone and rule, as the row of a schedule has them."""

    resolved: str
    zone: str
    rule: bytes | None


AnyText = tuple[str, str, bytes | None]
"""The same without the names: the garbage collector does not look through plain tuples of text again and again."""


class Cron(NamedTuple):
    """So many schedules have this cron text."""

    resolved: str
    zone: str
    rule: bytes | None
    number: int


class Interval(NamedTuple):
    """So many schedules of this period (``@every``) have their next occurrence at this instant."""

    period: str
    rule: bytes | None
    instant_s: int
    number: int


class _Timing(NamedTuple):
    """What of a rule matters here, once the time is known: a window that does not cut it is none."""

    jitter_ms: int
    from_s: int
    to_s: int


class _Group:
    """Schedules that share their days."""

    __slots__ = ("by_tick", "days", "jitter_ms")

    def __init__(self, days: Days, jitter_ms: int) -> None:
        self.days = days
        self.jitter_ms = jitter_ms
        self.by_tick: dict[int, float] = {}


class Tally:
    """Counts the seconds of ``[from, to)``. ``add_...`` in any order, then ``counted``."""

    def __init__(self, from_s: int, to_s: int) -> None:
        self.from_s = from_s
        self.to_s = to_s
        self.texts: dict[AnyText, int] = {}
        """Cron texts that are due in this time, with how many schedules have each. Their rules are ``kept_rule``."""
        self.texts_dropped = 0
        self._waiting: dict[AnyText, int] = {}
        self.schedules = 0
        """How many schedules it was given."""
        self.unreadable = 0
        """Of these, how many have a text that cannot be read here."""
        self.jittered = 0
        self._counts: list[float] = [0] * (to_s - from_s)
        self._steps: list[float] = []
        """By how much the expectation of jittered launches rises or falls in each second; empty: there are none."""
        self._walked = 0
        self.unspread = 0
        """How many schedules were counted without their jitter: to lay out all their instants would take too long."""
        self._groups: dict[tuple[Shared, _Timing], _Group] = {}
        self._intervals: dict[tuple[int, int, _Timing], float] = {}
        self._laid_out: dict[tuple[int, int, _Timing], float] = {}
        self._expected: list[float] | None = None
        self._timing_of = lru_cache(maxsize=65_536)(self._timing)

    def add_crons(self, rows: Iterable[tuple[str, str, bytes | None, int]]) -> None:
        """Rows of ``Cron``. The same text comes with every portion: it is taken apart once, when all have come."""
        waiting = self._waiting
        for resolved, zone, rule, number in rows:
            self.schedules += number
            text = (resolved, zone, None if rule is None else self.kept_rule(rule))
            waiting[text] = waiting.get(text, 0) + number
        if len(waiting) > TEXTS_KEPT:
            self._take_up()

    def kept_rule(self, rule: bytes | None) -> bytes | None:
        """What of a rule makes a difference in this time; None: nothing. Each schedule may have an end of its own."""
        jitter_ms, from_s, to_s = self._timing_of(rule)
        return None if not jitter_ms and (from_s, to_s) == (self.from_s, self.to_s) else rule

    def _take_up(self) -> None:
        texts, waiting = self.texts, self._waiting
        self._waiting = {}
        for text, number in waiting.items():
            try:
                is_due = self.add_text(text, number)
            except InvalidSchedule:
                self.unreadable += number
                continue
            if is_due:
                texts[text] = texts.get(text, 0) + number
        if len(texts) > TEXTS_KEPT:
            self._forget_rare()

    def add_text(self, text: AnyText, count: float) -> bool:
        """One cron text. False: it is not due in this time. A negative count takes it out again."""
        resolved, zone, rule = text
        found = outline(resolved, zone)
        timing = self._timing_of(rule)
        self._expected = None
        if found is None:
            raise InvalidSchedule("not a cron text", field="cron", value=resolved)
        if timing.jitter_ms and (found.ticks > 1 or timing.jitter_ms > _DAILY_JITTER_MAX_MS):
            if self._walked < WALKED_MAX:
                return self._add_walking(text, timing, count)
            self.unspread += abs(round(count))
            timing = _Timing(0, max(timing.from_s, self.from_s), timing.to_s)
        return self._add_outline(found, timing, count)

    def add_outline(self, found: Outline, rule: bytes | None, count: float) -> bool:
        """The days of a text with times of day that no text may have. Its jitter is left out of account."""
        return self._add_outline(found, self._timing_of(rule)._replace(jitter_ms=0), count)

    def _add_outline(self, found: Outline, timing: _Timing, count: float) -> bool:
        self._expected = None
        group = self._group(found.shared, timing)
        if group.days.is_empty:
            return False
        if group.jitter_ms:
            self.jittered += 1
        by_tick = group.by_tick
        for tick in ticks(found):
            by_tick[tick] = by_tick.get(tick, 0) + count
        for gap in group.days.gaps:
            if gap.meets(found):
                self._put(gap.instant_s, count, group.jitter_ms)
        return True

    def _add_walking(self, text: AnyText, timing: _Timing, count: float) -> bool:
        """With jitter that may be cut short by the next occurrence: instant by instant."""
        self.jittered += 1
        expression = plan(*text).expression
        # Jitter ends before the next occurrence: of those before this time only the last one may reach into it.
        last_s = expression.previous_unix(self.from_s + 1) or 0
        instant_s = expression.next_unix(max(timing.from_s, last_s) - 1)
        is_due = False
        while instant_s is not None and instant_s < timing.to_s:
            following = expression.next_unix(instant_s)
            jitter_ms = timing.jitter_ms
            if following is not None:
                jitter_ms = min(jitter_ms, (following - instant_s) * 1000 - 1)
            self._put(instant_s, count, jitter_ms)
            self._walked += 1
            instant_s, is_due = following, True
        return is_due

    def add_intervals(self, rows: Iterable[tuple[str, bytes | None, int, int]]) -> None:
        """Rows of ``Interval``: they go on from their next occurrence, in their own beat also if it is overdue."""
        for period, rule, instant_s, count in rows:
            self.schedules += count
            try:
                period_s = _period_s(period)
            except InvalidInput:
                self.unreadable += count
                continue
            self._expected = None
            timing = self._timing_of(rule)
            late = max(timing.from_s, self.from_s - period_s) - instant_s
            first_s = instant_s if late <= 0 else instant_s + -(-late // period_s) * period_s
            if first_s < timing.to_s:
                key = (period_s, first_s, timing)
                self._intervals[key] = self._intervals.get(key, 0) + count

    def add_moments(self, rows: Iterable[tuple[int, int]]) -> None:
        """Single launches by the second in which they are planned, jitter included."""
        self._expected = None
        counts, from_s, to_s = self._counts, self.from_s, self.to_s
        for at_s, count in rows:
            self.schedules += count
            if from_s <= at_s < to_s:
                counts[at_s - from_s] += count

    def counted(self) -> list[float]:
        """Launches of each second, in order. What was added is put in; more may be added, and this asked again."""
        self._take_up()
        for group in self._groups.values():
            self._lay_out(group)
            group.by_tick = {}
        for key, count in self._intervals.items():
            self._repeat(*key, count)
            self._laid_out[key] = self._laid_out.get(key, 0) + count
        self._intervals = {}
        if not self._steps:
            return self._counts
        if self._expected is None:
            self._expected = self._with_expectation()
        return self._expected

    def intervals_at(self, instant_s: int) -> dict[int, int]:
        """Who of ``@every`` is due in that second: periods, with how many schedules have each. None with jitter."""
        found: dict[int, int] = {}
        for (period_s, first_s, timing), count in self._laid_out.items():
            late = instant_s - first_s
            if late >= 0 and late % period_s == 0 and instant_s < timing.to_s and not timing.jitter_ms:
                found[period_s] = found.get(period_s, 0) + round(count)
        return found

    def copy(self) -> Tally:
        """The same count, to which others may be added; it begins with what is counted already."""
        other = Tally(self.from_s, self.to_s)
        other._counts = self.counted().copy()
        return other

    def _lay_out(self, group: _Group) -> None:
        by_tick, from_s = group.by_tick, self.from_s
        if not by_tick:
            return
        if group.jitter_ms:
            for base, first, end in group.days.pieces:
                for tick, count in by_tick.items():
                    if first <= tick < end:
                        self._put(base + tick, count, group.jitter_ms)
            return
        counts = self._counts
        for piece in group.days.pieces:
            base = piece.base - from_s
            if piece.is_whole:
                for tick, count in by_tick.items():
                    counts[base + tick] += count
            else:
                _, first, end = piece
                for tick, count in by_tick.items():
                    if first <= tick < end:
                        counts[base + tick] += count

    def _repeat(self, period_s: int, first_s: int, timing: _Timing, count: float) -> None:
        jitter_ms = min(timing.jitter_ms, period_s * 1000 - 1)
        if jitter_ms:
            self.jittered += 1
            for instant_s in range(first_s, timing.to_s, period_s):
                self._put(instant_s, count, jitter_ms)
            return
        counts = self._counts
        for index in range(first_s - self.from_s, timing.to_s - self.from_s, period_s):
            counts[index] += count

    def _put(self, instant_s: int, count: float, jitter_ms: int) -> None:
        """One instant; with jitter each second of its span gets its share."""
        self._expected = None
        if not jitter_ms:
            self._counts[instant_s - self.from_s] += count
            return
        at = instant_s - self.from_s
        whole, rest_ms = divmod(jitter_ms + 1, 1000)
        share = count / (jitter_ms + 1)
        if whole:
            self._step(at, share * 1000)
            self._step(at + whole, -share * 1000)
        if rest_ms:
            self._step(at + whole, share * rest_ms)
            self._step(at + whole + 1, -share * rest_ms)

    def _step(self, at: int, step: float) -> None:
        """A jitter that began before the counted time may reach into it."""
        if not self._steps:
            self._steps = [0.0] * len(self._counts)
        if at < len(self._steps):
            self._steps[max(at, 0)] += step

    def _with_expectation(self) -> list[float]:
        expected = accumulate(self._steps)
        # Sums of shares end a hair beside zero.
        return [
            count + share if share > 1e-9 else count
            for count, share in zip(self._counts, expected, strict=True)
        ]

    def _group(self, shared: Shared, timing: _Timing) -> _Group:
        key = (shared, timing)
        group = self._groups.get(key)
        if group is None:
            days = days_of(shared, timing.from_s, timing.to_s)
            group = self._groups[key] = _Group(days, timing.jitter_ms)
        return group

    def _timing(self, raw: bytes | None) -> _Timing:
        """An occurrence before this time may be launched in it, if it has jitter."""
        rule = decode_rule(raw)
        return _Timing(rule.jitter_ms, *within(rule, self.from_s - -(-rule.jitter_ms // 1000), self.to_s))

    def _forget_rare(self) -> None:
        ordered = sorted(self.texts.items(), key=lambda item: item[1], reverse=True)
        self.texts_dropped += len(ordered) - TEXTS_KEPT // 2
        self.texts = dict(ordered[: TEXTS_KEPT // 2])


def within(rule: Rule, from_s: int, to_s: int) -> tuple[int, int]:
    """The part of a time in which a schedule has occurrences, by its own ``start`` and ``end``."""
    if rule.start_ms:
        from_s = max(from_s, -(-rule.start_ms // 1000))
    if rule.end_ms:
        to_s = min(to_s, rule.end_ms // 1000 + 1)
    return max(0, from_s), max(0, from_s, to_s)


def every_s(resolved: str) -> int:
    """The period of an ``@every`` text; 0: it is none."""
    words = resolved.split()
    return _period_s(words[words.index("@every") + 1]) if "@every" in words else 0


@lru_cache(maxsize=4096)
def _period_s(text: str) -> int:
    return parse_duration(text, field="cron")
