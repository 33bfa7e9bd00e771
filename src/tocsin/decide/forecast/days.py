"""The days that texts share, cut to a time: where on the line of seconds a time of day lands.

This is ``cron.recurrence`` for many texts at once. A day is a piece: times of day from ``first`` up to ``end`` land at
``base`` plus the time of day. A gap that is filled (rule 8) is told apart: there a text has one occurrence, however
many of its times the clocks leave out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tocsin.cron.dates import DatePattern
from tocsin.cron.outline import Outline, Shared
from tocsin.cron.zones import UNIX_MAX, Segment, zone

DAY_S = 86_400


class Piece(NamedTuple):
    """A day, or what is in it of the time asked for."""

    base: int
    first: int
    end: int

    @property
    def is_whole(self) -> bool:
        return self.first == 0 and self.end == DAY_S


class Gap(NamedTuple):
    """Times of day that the clocks leave out, each part of one day; all of them happen at one instant."""

    instant_s: int
    parts: tuple[tuple[int, int], ...]
    """From and up to (with it), on days that match."""

    def meets(self, outline: Outline) -> bool:
        return any(_has_tick(outline, first, last) for first, last in self.parts)


class Days(NamedTuple):
    """All pieces and gaps of the time ``[from, to)``. ``base`` counts from 1970, as instants do."""

    pieces: tuple[Piece, ...]
    gaps: tuple[Gap, ...]

    @property
    def is_empty(self) -> bool:
        return not self.pieces and not self.gaps


def days_of(shared: Shared, from_s: int, to_s: int) -> Days:
    pieces: list[Piece] = []
    gaps: list[Gap] = []
    dates = shared.dates()
    for segment in _segments(shared.zone, from_s, to_s):
        start, end, offset, entry = segment
        first, last = max(from_s, start) + offset, min(to_s, end) + offset
        if shared.fixed:
            if entry < start + offset and from_s <= start:
                parts = tuple(_parts(dates, entry, start + offset + 1))
                if parts:
                    gaps.append(Gap(start, parts))
                first = start + offset + 1
            first = max(first, entry)
        pieces += [
            Piece(day * DAY_S - offset, begin, until) for day, begin, until in _by_day(dates, first, last)
        ]
    return Days(tuple(pieces), tuple(gaps))


def _segments(name: str, from_s: int, to_s: int) -> Iterator[Segment]:
    where, at_s = zone(name), max(from_s, 0)
    while at_s < to_s and at_s <= UNIX_MAX:
        segment = where.segment(at_s)
        yield segment
        at_s = segment.end


def _parts(dates: DatePattern, first: int, end: int) -> Iterator[tuple[int, int]]:
    for _, begin, until in _by_day(dates, first, end):
        yield begin, until - 1


def _by_day(dates: DatePattern, first: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Local seconds ``[first, end)`` as matching days, each with its times of day from and up to."""
    if first >= end:
        return
    day = dates.first_from(first // DAY_S)
    while day is not None and day * DAY_S < end:
        yield day, max(0, first - day * DAY_S), min(DAY_S, end - day * DAY_S)
        day = dates.first_from(day + 1)


def ticks(outline: Outline) -> Iterable[int]:
    """Its times of day, in seconds."""
    _, hours, minutes, seconds = outline
    if len(hours) == len(minutes) == len(seconds) == 1:
        return (hours[0] * 3600 + minutes[0] * 60 + seconds[0],)
    of_hour = [minute * 60 + second for minute in minutes for second in seconds]
    return [hour * 3600 + tick for hour in hours for tick in of_hour]


def _has_tick(outline: Outline, first: int, last: int) -> bool:
    return any(first <= tick <= last for tick in ticks(outline))
