"""Launches as bars along the time: planned, started, ended. What overlaps stands in rows below each other.

Most schedules are idle most of the time, and their launches would be too thin to be seen. Then the idle time is left
out: what is drawn has one scale everywhere, and a dotted line stands where something was left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup, escape

from tocsin.cron.zones import Zone
from tocsin.model.activity import LATE_MS
from tocsin.ui.words import SIGNS

WIDTH = 1000
_LEFT, _RIGHT, _TOP, _AXIS = 6, 14, 6, 34
_LANE, _LANE_LEAST, _TALL = 24, 12, 420
_SLIVER, _THIN = 10, 4
"""The least that a bar is wide: room for its sign, or just to be seen where it has none."""
_MANY = 40
"""More stretches than this get less room each."""
_BUSY_ENOUGH = 0.3
_GAP_MOST, _GAP_LEAST = 16.0, 2.0
_LETTER = 6.3
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_TICKS_MOST = 9
_SIGNLESS = ("succeeded",)
OPEN = ("started", "running", "retrying", "queued")


class Bar(NamedTuple):
    """A launch, and what is told of it."""

    words: str
    href: str
    state: str
    planned_ms: int
    started_ms: int | None
    ended_ms: int | None
    """None: it is open."""
    retries_ms: Sequence[int] = ()
    """When further attempts began."""

    def span(self, now_ms: int) -> tuple[int, int]:
        begin = min(self.planned_ms, self.started_ms or self.planned_ms)
        if self.ended_ms is not None:
            # What was never started is over when it is over, but nothing went on until then.
            return begin, max(begin, self.ended_ms if self.started_ms is not None else begin)
        return begin, max(begin, now_ms)


class Scale:
    """From moments to places."""

    def __init__(self, spans: Iterable[tuple[int, int]], room: float = WIDTH - _LEFT - _RIGHT) -> None:
        busy = _merged(sorted(spans))
        whole = busy[-1][1] - busy[0][0]
        used = sum(end - begin for begin, end in busy)
        self.is_broken = len(busy) > 1 and used < _BUSY_ENOUGH * whole
        if not self.is_broken:
            busy = [(busy[0][0], max(busy[-1][1], busy[0][0] + 1))]
        self.pieces = _placed(busy, room)
        self._begins = [piece[0] for piece in self.pieces]

    def __call__(self, at_ms: int) -> float:
        begin, end, left, right = self.pieces[max(0, bisect_right(self._begins, at_ms) - 1)]
        part = 0.0 if end == begin else (min(max(at_ms, begin), end) - begin) / (end - begin)
        return left + part * (right - left)


def timeline(bars: Sequence[Bar], zone: Zone, now_ms: int, *, gist: str) -> Markup:
    """The bars in the order of time, from the left to the right."""
    ordered = sorted(bars, key=lambda bar: bar.span(now_ms))
    scale = Scale(bar.span(now_ms) for bar in ordered)
    lanes = _lanes([_extent(bar, scale, now_ms) for bar in ordered])
    rows = max(lanes, default=0) + 1
    lane = max(_LANE_LEAST, min(_LANE, _TALL / rows))
    bottom = _TOP + rows * lane
    drawn = [_bar(bar, row, lane, scale, now_ms) for bar, row in zip(ordered, lanes, strict=True)]
    is_now = any(bar.ended_ms is None for bar in ordered)
    return Markup(
        f'<svg class="chart timeline" viewBox="0 0 {WIDTH} {bottom + _AXIS:.0f}" role="group" '
        f'aria-label="{escape(gist)}" data-rove="">{_axis(scale, zone, bottom)}{"".join(drawn)}'
        f"{_upright('mark', scale(now_ms), bottom) if is_now else ''}</svg>"
    )


def overlapping(bars: Sequence[Bar], now_ms: int) -> int:
    """How many began while an earlier one had not ended."""
    running = sorted((bar.started_ms, bar.span(now_ms)[1]) for bar in bars if bar.started_ms is not None)
    found, busy_until = 0, -1
    for began_ms, ended_ms in running:
        found += began_ms < busy_until
        busy_until = max(busy_until, ended_ms)
    return found


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for begin, end in spans:
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found or [(0, 1)]


def _placed(busy: Sequence[tuple[int, int]], room: float) -> list[tuple[int, int, float, float]]:
    """Each stretch with where it begins and ends: the longer, the wider, but none too thin to be seen."""
    number = len(busy)
    gap = min(_GAP_MOST, max(_GAP_LEAST, 0.4 * room / number)) if number > 1 else 0.0
    left_over = room - gap * (number - 1)
    least = min(float(_SLIVER if number <= _MANY else _THIN + 2), left_over / number)
    used = sum(end - begin for begin, end in busy)
    share = (left_over - least * number) / used if used else 0.0
    found, x = [], float(_LEFT)
    for begin, end in busy:
        width = least + (end - begin) * share
        found.append((begin, end, x, x + width))
        x += width + gap
    return found


def _extent(bar: Bar, scale: Scale, now_ms: int) -> tuple[float, float]:
    begin, end = bar.span(now_ms)
    left = scale(begin)
    started = left if bar.started_ms is None else scale(bar.started_ms)
    return left, max(scale(end), started + _least(bar))


def _least(bar: Bar) -> int:
    return _THIN if bar.state in _SIGNLESS else _SLIVER


def _lanes(extents: Sequence[tuple[float, float]]) -> list[int]:
    """The first row that is free, for each."""
    free_from: list[float] = []
    found = []
    for left, right in extents:
        row = next((row for row, free in enumerate(free_from) if free <= left + 0.01), len(free_from))
        if row == len(free_from):
            free_from.append(0.0)
        free_from[row] = right
        found.append(row)
    return found


def _bar(bar: Bar, row: int, lane: float, scale: Scale, now_ms: int) -> str:
    y, height = _TOP + row * lane, lane - 4
    begin, end = bar.span(now_ms)
    left, right = scale(begin), scale(end)
    at = left if bar.started_ms is None else scale(bar.started_ms)
    is_block = bar.started_ms is not None or bar.ended_ms is not None
    waited_until = at if is_block else right
    parts = []
    if waited_until - left > 0.5:
        is_late = bar.started_ms is not None and bar.started_ms - bar.planned_ms > LATE_MS
        parts.append(_rect("s-late" if is_late else "wait", left, y + height / 2 - 2, waited_until - left, 4))
    if is_block:
        parts.append(_rect(f"s-{bar.state}", at, y, max(_least(bar), right - at), height))
    for retry_ms in bar.retries_ms:
        parts.append(_rect("retry", max(at + 1, scale(retry_ms) - 1), y - 1, 2, height + 2))
    if bar.state not in _SIGNLESS:
        # Beside the marks of further attempts, where there is room for that.
        place = right - _SLIVER / 2 if bar.retries_ms and right - at > 2 * _SLIVER else at + _SLIVER / 2
        kind = "sign" if is_block else "sign-out"
        parts.append(
            f'<text class="{kind}" x="{place:.1f}" y="{y + height / 2 + 3.5:.1f}">{SIGNS.get(bar.state, "")}</text>'
        )
    return f'<a href="{escape(bar.href)}"><title>{escape(bar.words)}</title>{"".join(parts)}</a>'


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(1.0, width):.1f}" height="{height:.1f}" rx="2"/>'


# The axis


def _axis(scale: Scale, zone: Zone, bottom: float) -> str:
    parts = [f'<line class="axis" x1="0" x2="{WIDTH}" y1="{bottom:.1f}" y2="{bottom:.1f}"/>']
    if scale.is_broken:
        moments = [piece[0] for piece in scale.pieces]
        for before, after in pairwise(scale.pieces):
            if after[2] - before[3] > 5:
                parts.append(_upright("cut", (before[3] + after[2]) / 2, bottom))
    else:
        begin, end, *_ = scale.pieces[0]
        moments = _ticks(begin, end, zone)
        parts += [_upright("axis", scale(at), bottom) for at in moments]
    parts += _labels([(scale(at), _local(at, zone)) for at in moments], bottom)
    return f'<g aria-hidden="true">{"".join(parts)}</g>'


def _ticks(begin_ms: int, end_ms: int, zone: Zone) -> list[int]:
    """Round moments of the local clock."""
    span_s = max(1, (end_ms - begin_ms) // 1000)
    step = next((step for step in _STEPS_S if span_s / step <= _TICKS_MOST), 0)
    if not step:
        step = 86_400 * -(-span_s // (86_400 * _TICKS_MOST))
    offset = zone.segment(begin_ms // 1000).offset
    first = -(-(begin_ms // 1000 + offset) // step) * step - offset
    return [at * 1000 for at in range(first, end_ms // 1000 + 1, step)] or [begin_ms]


def _labels(places: Sequence[tuple[float, datetime]], bottom: float) -> Iterator[str]:
    """The time of day, and below it the date where it changes; none so near to another that they touch."""
    with_seconds = any(at.second or at.microsecond >= 1000 for _, at in places)
    free_clock = free_date = -1.0
    last_date = None
    for x, at in places:
        clock = f"{at:%H:%M:%S}" if with_seconds else f"{at:%H:%M}"
        if x >= free_clock and x + len(clock) * _LETTER <= WIDTH:
            free_clock = x + len(clock) * _LETTER + 8
            yield _text(x, bottom + 14, clock)
        date = f"{at:%a} {at.day} {at:%b}"
        if date != last_date and x >= free_date and x + len(date) * _LETTER <= WIDTH:
            free_date, last_date = x + len(date) * _LETTER + 10, date
            yield _text(x, bottom + 28, date)


def _upright(kind: str, x: float, bottom: float) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom:.1f}"/>'


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}">{words}</text>'


def _local(at_ms: int, zone: Zone) -> datetime:
    """The clock on the wall there."""
    return datetime.fromtimestamp(at_ms / 1000 + zone.segment(at_ms // 1000).offset, UTC)
