"""What a change of the clock does to a schedule, in plain words: rule 8 told for one zone and one night.

Which local times a change leaves out or repeats is found by reading the same words in UTC, where every local time
exists exactly once. What becomes of them is decided in ``recurrence``; here it is only told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tocsin.cron.instants import instant_of
from tocsin.cron.interval import Every
from tocsin.cron.reading import Reading, read
from tocsin.cron.recurrence import Recurrence, Rule
from tocsin.cron.zones import GAP_FILLED_MAX_S, UNIX_MAX

_TOLD_MAX = 3
_COUNTED_MAX = 5_000
_UNTOUCHED = "none of its occurrences"
_EVERY = "@every counts elapsed time and is not moved"
_ONCE = "@at is one instant and is not moved"


class ClockChange(NamedTuple):
    """The first instant under another offset, and what the schedule makes of it."""

    at: int
    offset_before: int
    offset_after: int
    clocks: str
    """``2027-03-28: clocks go from 02:00 to 03:00``"""
    effect: str
    """``the occurrence of 02:30 is launched at 03:00``"""

    @property
    def is_felt(self) -> bool:
        """Does it make any difference to this schedule?"""
        return not self.effect.startswith((_UNTOUCHED, _EVERY, _ONCE))


def between(reading: Reading, after: int, upto: int) -> Iterator[ClockChange]:
    """Every change of the zone's offset in (after, upto]."""
    segment = reading.zone.segment(max(after, 0))
    upto = min(upto, UNIX_MAX)
    while segment.end <= upto:
        following = reading.zone.segment(segment.end)
        if following.offset != segment.offset:  # the table also ends a segment where it ends itself
            yield _told(reading, segment.end, segment.offset, following.offset)
        segment = following


def _told(reading: Reading, at: int, before: int, after: int) -> ClockChange:
    old, new = at + before, at + after
    way = "go from" if after > before else "go back from"
    other_day = f" of {instant_of(new):%Y-%m-%d}" if old // 86_400 != new // 86_400 else ""
    clocks = f"{instant_of(old):%Y-%m-%d}: clocks {way} {_time(old)} to {_time(new)}{other_day}"
    return ClockChange(at, before, after, clocks, _effect(reading, old, new))


def _effect(reading: Reading, old: int, new: int) -> str:
    """``old`` and ``new`` are what the clocks show before and after the change, as local seconds."""
    if not isinstance(reading.rule, Recurrence):
        return _EVERY if isinstance(reading.rule, Every) else _ONCE
    local = read(" ".join(reading.words), "UTC", "", None).rule
    first, last = min(old, new), max(old, new) - 1
    times = _times(local, first, last)
    if not times:
        return f"{_UNTOUCHED} lies between {_time(first)} and {_time(last + 1)}"
    if new < old:
        return _repeated(times, reading.rule.fixed)
    return _left_out(times, reading.rule.fixed, new - old, _time(new), local.matches(new))


def _repeated(times: list[str], fixed: bool) -> str:
    one = len(times) == 1
    comes = f"{_and(times)} {'comes' if one else 'come'} twice and {'is' if one else 'are'} launched"
    return f"{comes} the first time only" if fixed else f"{comes} both times"


def _left_out(times: list[str], fixed: bool, gap_s: int, end: str, end_matches: bool) -> str:
    one = len(times) == 1
    those = f"the {'occurrence' if one else 'occurrences'} of {_and(times)} {'is' if one else 'are'}"
    if not fixed:
        return f"{those} not launched: the clocks never show that time"
    if gap_s > GAP_FILLED_MAX_S:
        return f"{those} not launched: the clocks leave out more than 3 hours"
    if end_matches:
        return f"{those} launched at {end}, in one launch with the occurrence of {end}"
    return f"{those} launched at {end}" if one else f"{those} launched at {end}, in one launch"


def _times(local: Rule, first: int, last: int) -> list[str]:
    """The matches in [first, last]: a few of them, and how many more."""
    found: list[str] = []
    unix = local.next_unix(first - 1)
    while unix is not None and unix <= last and len(found) < _TOLD_MAX:
        found.append(_time(unix))
        unix = local.next_unix(unix)
    if unix is not None and unix <= last:
        more = local.count_between(unix - 1, last, _COUNTED_MAX)
        found.append(f"{more} more" if more < _COUNTED_MAX else f"at least {more} more")
    return found


def _time(local: int) -> str:
    moment = instant_of(local)
    return f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
